"""The service: a store behind HTTP. It adds who may ask, and how it is said; nothing else."""

from __future__ import annotations

from stateward.server.rates import RateSettings
from stateward.server.service import app
from stateward.server.tokens import JwtSettings

__all__ = ["JwtSettings", "RateSettings", "app"]
