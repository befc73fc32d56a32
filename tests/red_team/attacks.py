"""The red team: what students might hand in to cheat or to harm, each with the marks an honest grader gives.

from red_team.attacks import ATTACKS
submission = ATTACKS["sys_exit_in_cell"].make(reference_submission)
"""

from red_team import documents, jail, values  # noqa: F401  (importing registers their attacks)
from red_team.toolbox import (
    ATTACKS,
    HTML,
    LISTENER_NAME,
    LISTENER_PORT,
    TRACE,
    Attack,
    append_to_answer,
    attack,
    forbidden_files,
    set_answer,
)

__all__ = [
    "ATTACKS",
    "HTML",
    "LISTENER_NAME",
    "LISTENER_PORT",
    "TRACE",
    "Attack",
    "append_to_answer",
    "attack",
    "forbidden_files",
    "set_answer",
]
