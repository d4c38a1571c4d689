# The compiled half: what users see of it is described in the other modules.
from typing import Any

def __getattr__(name: str) -> Any: ...
