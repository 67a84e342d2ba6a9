"""Wheels with the program in them are of one platform: bench/wheel.sh names its tag."""

import os
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(BuildHookInterface):
    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        tag = os.environ.get("ISOBAR_WHEEL_TAG")
        if tag:
            build_data["tag"] = tag
            build_data["pure_python"] = False
