"""The registration of libraries' effects that loops may have."""

from __future__ import annotations

from teucer._optimize.effects import EffectTypes

# Loops and branches take the effects of all high primitives; libraries say it of theirs all the
# same.
control_flow_allowed_effects = EffectTypes()
