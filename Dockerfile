# Teucer on Python 3.13:   docker build -t teucer .    docker run --rm teucer doctor
# For NVIDIA GPUs:         docker build -t teucer --build-arg EXTRAS=cli,cuda13 .
#                          docker run --rm --gpus all teucer doctor
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim
ARG EXTRAS=cli
COPY --from=build /wheels /wheels
RUN wheel=$(ls /wheels/teucer-*.whl) && pip install --no-cache-dir "${wheel}[${EXTRAS}]" \
    && rm -r /wheels && useradd --create-home teucer
USER teucer
WORKDIR /home/teucer
ENTRYPOINT ["teucer"]
CMD ["doctor"]
