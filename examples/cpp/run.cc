// Runs a program that `teucer export` wrote, on any device that has a PJRT plugin. Usage:
//
//   run PLUGIN.so PROGRAM [TYPE=FILE ...]      for example   run pjrt_cpu.so predict.mlir f32[8]=offset.bin f32[2,8]=x.bin
//
// Each argument is a type and a file of its values, in row-major order. Each result goes to out0.bin, out1.bin, ...; its
// type and first values are printed. `pjrt.h` beside this file is what a program of your own would include.

#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "pjrt.h"

namespace {

std::vector<char> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "f32[2,8]=x.bin" as a type and the values in the file.
pjrt::Host Argument(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']'), equal = text.find('=');
  if (open == text.npos || close == text.npos || equal != close + 1)
    throw std::runtime_error("an argument is TYPE=FILE, such as f32[2,8]=x.bin, not '" + text + "'");
  pjrt::Host host;
  host.type = pjrt::TypeNamed(text.substr(0, open));
  for (size_t at = open + 1; at < close; at = text.find_first_of(",]", at) + 1)
    host.dims.push_back(std::stoll(text.substr(at)));
  host.bytes = Read(text.substr(equal + 1));
  if (host.bytes.size() != host.size() * pjrt::Bytes(host.type))
    throw std::runtime_error(text + ": the file has " + std::to_string(host.bytes.size()) + " bytes, the type " +
                             std::to_string(host.size() * pjrt::Bytes(host.type)));
  return host;
}

template <typename T>
void PrintFirst(const pjrt::Host& host) {
  T value;
  for (size_t i = 0; i < std::min<size_t>(host.size(), 4); ++i) {
    std::memcpy(&value, host.bytes.data() + i * sizeof(T), sizeof(T));
    std::printf(" %g", static_cast<double>(value));
  }
}

void Report(size_t index, const pjrt::Host& host) {
  std::string dims;
  for (int64_t dim : host.dims) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
  std::printf("out%zu.bin %s[%s]", index, pjrt::Name(host.type), dims.c_str());
  if (host.type == PJRT_Buffer_Type_F32) PrintFirst<float>(host);
  if (host.type == PJRT_Buffer_Type_F64) PrintFirst<double>(host);
  if (host.type == PJRT_Buffer_Type_S32) PrintFirst<int32_t>(host);
  if (host.type == PJRT_Buffer_Type_S64) PrintFirst<int64_t>(host);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s PLUGIN.so PROGRAM [TYPE=FILE ...]\n", argv[0]);
    return 2;
  }
  std::vector<pjrt::Host> arguments;
  for (int i = 3; i < argc; ++i) arguments.push_back(Argument(argv[i]));
  pjrt::Client client(argv[1]);
  pjrt::Program program = client.Compile(Read(argv[2]));
  std::vector<pjrt::Host> results = program(arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    std::ofstream("out" + std::to_string(i) + ".bin", std::ios::binary)
        .write(results[i].bytes.data(), static_cast<std::streamsize>(results[i].bytes.size()));
    Report(i, results[i]);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
