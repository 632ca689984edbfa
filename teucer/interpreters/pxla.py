"""Programs over several devices. JAX names nothing here that libraries may still use; they import the module with the others."""
