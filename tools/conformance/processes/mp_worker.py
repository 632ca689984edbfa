"""One process of run_multiprocess.py: FILE, then the flags of jax._src.test_multiprocess."""
import json, os, runpy, sys, types, unittest

LOG = os.environ["MP_LOG"]


def log(**r):
    with open(LOG, "a") as f:
        f.write(json.dumps(r) + "\n")


def shims():
    """What ../src_shims.py does not have, since no test of one process needs it."""
    import jax_alias, src_shims
    import teucer
    from teucer._devices import processes, backends
    from teucer._devices.joining import initialize, shutdown
    d = types.ModuleType("jax._src.distributed")
    d.global_state, d.State, d.initialize, d.shutdown = processes.state, processes.State, initialize, shutdown
    jax_alias.hooks["jax._src.distributed"] = d
    xb = dict(process_count=teucer.process_count, process_index=teucer.process_index, local_devices=teucer.local_devices,
              local_device_count=teucer.local_device_count, devices=teucer.devices, device_count=teucer.device_count)
    old = src_shims.SHIMS["xla_bridge"]
    src_shims.SHIMS["xla_bridge"] = lambda attr: (True, xb[attr]) if attr in xb else old(attr)
    src_shims.Config.config_with_absl = lambda self: None

    def device_put_sharded(xs, devices):
        """Private in JAX 0.10: a leading axis over the devices, one value each."""
        from teucer.sharding import Mesh, NamedSharding, PartitionSpec
        import numpy as np
        sharding = NamedSharding(Mesh(np.array(devices), ("_device_put_sharded",)), PartitionSpec("_device_put_sharded"))
        parts = [teucer.device_put(np.asarray(x)[None], d) for x, d in zip(xs, devices)]
        return teucer.make_array_from_single_device_arrays((len(xs), *parts[0].shape[1:]), sharding, parts)
    src_shims.SHIMS["api"]["device_put_sharded"] = device_put_sharded
    src_shims.SHIMS["hardware_utils"] = {"num_available_tpu_chips_and_device_id": lambda: (0, None)}

    def num_addressable_indices(sharding, dim, global_shape):
        """How many indices of an axis this process holds."""
        held = {range(*i[dim].indices(global_shape[dim])) for i in sharding.addressable_devices_indices_map(tuple(global_shape)).values()}
        return len(set().union(*held))
    import importlib.util  # teucer.compat itself would install its own alias
    spec = importlib.util.spec_from_file_location("_processes_of_compat", os.path.join(os.path.dirname(teucer.__file__), "compat", "_processes.py"))
    _processes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(_processes)
    impls = src_shims.SHIMS["sharding_impls"]
    src_shims.SHIMS["sharding_impls"] = lambda attr: (True, num_addressable_indices) if attr == "num_addressable_indices" else (True, _processes.get_process_index_and_count) if attr == "get_process_index_and_count" else impls(attr)
    jax_alias.lenient = True


def main():
    file = sys.argv[1]
    if os.environ["IMPL"] != "jax":
        import jax_alias
        jax_alias.lenient = True
        jax_alias.install()
        shims()
    else:
        import jax
        sys.path.append(os.environ["JAX_SRC"])  # tests' own helpers; jax itself is imported already

    for name, outcome in (("addSuccess", "passed"), ("addFailure", "failed"), ("addError", "error"), ("addSkip", "skipped")):
        def wrap(method, outcome):
            def f(self, test, why=None):
                message = ""
                if outcome in ("failed", "error"):
                    import traceback
                    message = "".join(traceback.format_exception(*why))[-1500:]
                elif why is not None:
                    message = str(why)
                log(id=test.id().split("__main__.")[-1], o=outcome, m=message)
                return method(self, test, why) if why is not None else method(self, test)
            return f
        setattr(unittest.TestResult, name, wrap(getattr(unittest.TestResult, name), outcome))
    start = unittest.TestResult.startTest
    def started(self, test):
        log(start=test.id().split("__main__.")[-1])
        return start(self, test)
    unittest.TestResult.startTest = started

    from absl.testing import absltest
    absl_main = absltest.main
    def main_of_tests(*args, **kwargs):
        if os.environ["IMPL"] != "jax":
            import jax_alias
            jax_alias.lenient = False
        suite = kwargs["testLoader"].loadTestsFromModule(sys.modules["__main__"])
        def names(s):
            return [n for t in s for n in names(t)] if isinstance(s, unittest.TestSuite) else [s.id().split("__main__.")[-1]]
        json.dump(names(suite), open(LOG + ".all", "w"))
        return absl_main(*args, **kwargs)
    absltest.main = main_of_tests
    sys.argv = [file, *sys.argv[2:]]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit:
        raise
    except BaseException as e:
        import traceback
        log(collect_error="".join(traceback.format_exception(e))[-1500:])
        raise


main()
