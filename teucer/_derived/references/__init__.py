"""Programs on references: how they run."""
