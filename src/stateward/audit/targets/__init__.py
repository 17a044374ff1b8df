"""Audited targets. The names here may be needed by a memory of your own; see `memory`."""

from stateward.audit.targets.memory import PARTS as PARTS
from stateward.audit.targets.memory import KeptLocally as KeptLocally
from stateward.audit.targets.memory import Refused as Refused
from stateward.audit.targets.memory import VersionConflict as VersionConflict
