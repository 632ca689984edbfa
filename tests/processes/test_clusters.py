"""Clusters are found by their environments."""

import pytest

from teucer._devices import clusters

FOUND = {
    "teucer": (
        {"JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"},
        ("environment", None, 4, 2, None),
    ),
    "slurm": (
        {
            "SLURM_JOB_ID": "65537",
            "SLURM_STEP_NODELIST": "node[03-05,11]",
            "SLURM_NTASKS": "8",
            "SLURM_PROCID": "5",
            "SLURM_LOCALID": "1",
        },
        ("slurm", "node03:61441", 8, 5, 1),
    ),
    "open mpi 4": (
        {
            "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
            "OMPI_COMM_WORLD_SIZE": "4",
            "OMPI_COMM_WORLD_RANK": "3",
            "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        },
        ("ompi", f"10.96.0.1:{61440 + 1531576320 % 4096}", 4, 3, 1),
    ),
    "mpich, one machine": (
        {
            "PMI_RANK": "1",
            "PMI_SIZE": "2",
            "MPI_LOCALNRANKS": "2",
            "MPI_LOCALRANKID": "1",
            "PMI_JOBID": "7",
        },
        ("mpich", "127.0.0.1:61447", 2, 1, 1),
    ),
    "mpich, several": (
        {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
        ("mpich", None, 4, 1, None),
    ),
    "tpu pod": (
        {
            "TPU_WORKER_ID": "1",
            "TPU_WORKER_HOSTNAMES": "a,b",
            "MEGASCALE_NUM_SLICES": "2",
            "MEGASCALE_SLICE_ID": "1",
            "MEGASCALE_COORDINATOR_ADDRESS": "c:8080",
        },
        ("tpu", "c:61440", 4, 3, None),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    env, expected = FOUND[name]
    assert clusters.find(None, env) == clusters.Cluster(*expected)


def test_none():
    assert (
        clusters.find(
            None, {"PATH": "/bin", "TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
        )
        is None
    )
    assert clusters.find("deactivate", FOUND["slurm"][0]) is None


def test_kubernetes(monkeypatch):
    monkeypatch.setattr(
        clusters.socket, "getfqdn", lambda name: f"{name}.train.default.svc.cluster.local"
    )
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "2", "HOSTNAME": "job-2"}
    cluster = clusters.find(None, env)
    assert cluster.coordinator_address.startswith("job-0.train.default.svc.cluster.local:")
    assert (cluster.num_processes, cluster.process_id) == (None, 2)


def test_what_one_cluster_does_not_say_another_says():
    """The environment says how many processes there are, Kubernetes which one this is."""
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "2", "HOSTNAME": "pod"}
    cluster = clusters.find(None, {**env, "JAX_NUM_PROCESSES": "4"})
    assert cluster == clusters.Cluster("environment, k8s", None, 4, 2, None)
    both = {**FOUND["slurm"][0], **FOUND["teucer"][0]}
    assert clusters.find(None, both) == clusters.Cluster(*FOUND["teucer"][1])


def test_numbers_are_numbers():
    with pytest.raises(ValueError, match="SLURM_PROCID must be a whole number, and is 'x'"):
        clusters.find(None, {**FOUND["slurm"][0], "SLURM_PROCID": "x"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("n[1-3]", "n1"), ("n[07,09]x,m", "n07x"), ("a-b[1,2]", "a-b1")],
)
def test_first_node(nodes, first):
    assert clusters.first_node(nodes) == first
