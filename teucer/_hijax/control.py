"""What libraries say of their effects to loops."""

from __future__ import annotations

from teucer._optimize.effects import EffectTypes

# Loops and branches take the effects of all high primitives; libraries say it of theirs all the
# same.
control_flow_allowed_effects = EffectTypes()
