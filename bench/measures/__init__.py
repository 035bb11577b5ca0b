"""The measurements, one module for what belongs together; `bench.catalogue` names them."""
