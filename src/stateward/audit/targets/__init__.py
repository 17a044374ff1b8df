"""What is audited. Here are the names that a memory of your own may need; `memory` says of what."""

from stateward.audit.targets.memory import PARTS as PARTS
from stateward.audit.targets.memory import KeptLocally as KeptLocally
from stateward.audit.targets.memory import Refused as Refused
from stateward.audit.targets.memory import VersionConflict as VersionConflict
