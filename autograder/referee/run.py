"""Grade one submission: rebuild it, run it, judge each graded cell, and name known misconceptions."""

from autograder import result
from autograder.misconceptions import Misconception
from autograder.rebuild import HELPER, Rebuilt, Step, Unreadable, arrange, rebuild
from autograder.referee.notebook import graded_notebook
from autograder.referee.session import Failure, Session, TimeIsUp, time_limit
from autograder.release import Release
from autograder.result import CellResult, Result, no_marks
from autograder.sandbox.launch import Jail
from autograder.sandbox.peer import Gone


def grade(release: Release, jail: Jail, submission: bytes, seed: str) -> Result:
    """Grade one submission. Runs in a process of its own, which ends afterwards.

    Args:
        jail: warm, and of the same release.
        submission: the bytes of the file that was handed in.
        seed: every random number of the tests follows from it.
    """
    try:
        with time_limit(release.cell_timeout, "The file takes too long to read."):
            rebuilt = rebuild(release, submission)
    except (Unreadable, TimeIsUp) as error:
        return no_marks(release.graded, result.UNREADABLE, str(error))
    session = Session(release, jail, rebuilt.steps, seed)
    try:
        judged = [_judged(session, rebuilt, step) for step in session.steps()]
    finally:
        session.end()
    cells = [cell for cell, _ in judged]
    if any(cell.status == result.INFRASTRUCTURE for cell in cells):
        reason = next(cell.message for cell in cells if cell.status == result.INFRASTRUCTURE)
        return no_marks(release.graded, result.INFRASTRUCTURE, reason)
    _recognise(release, jail, judged, seed)
    graded = Result(result.GRADED, "", cells, rebuilt.notes, seed, jail.isolation)
    graded.notebook = graded_notebook(release, rebuilt, graded)
    return graded


def _judged(session: Session, rebuilt: Rebuilt, step: Step) -> tuple[CellResult, Failure]:
    """The verdict on one graded cell, and where its checks failed first."""
    cell = next(cell for cell in session.release.graded if cell.grade_id == step.id)
    outcome = CellResult(cell.grade_id, cell.exercise, cell.is_quiz, cell.points, result.RIGHT)
    said = session.said.get(cell.exercise, {"output": "", "pictures": [], "error": None})
    outcome.output, outcome.pictures, failed = said["output"], said["pictures"], said["error"]
    if cell.exercise not in rebuilt.answers:
        outcome.status, outcome.error, outcome.message = result.NOT_ATTEMPTED, "NotAttempted", "Not attempted."
        return outcome, Failure()
    if cell.exercise in session.fatal:
        outcome.status, outcome.message = session.fatal[cell.exercise]
        outcome.error = outcome.status
        return outcome, Failure()
    try:
        session.refresh()
    except Gone as error:
        outcome.status, outcome.message = session.ended(error)
        outcome.error = outcome.status
        return outcome, Failure()
    outcome.checks, failure = session.check(cell)
    outcome.error, outcome.message, outcome.traceback = failure.error, failure.message, failure.lines
    bad = [check for check in outcome.checks if check.status != result.RIGHT]
    if not outcome.checks and not session.release.is_visible_only:
        raise ValueError(f"{cell.grade_id} checks nothing")
    outcome.status = bad[0].status if bad else result.RIGHT
    if bad and failed:
        kind = failed["kind"]
        outcome.notes.append(f"The cell of {cell.exercise} itself fails with {kind}: {failed['message']}")
        outcome.traceback = outcome.traceback or failed["lines"]
        if outcome.error == "NameError":
            outcome.message = f"{cell.exercise} is not defined, because its cell fails with {kind}: {failed['message']}"
            outcome.checks = []
            unfinished = kind == "NotImplementedError"
            outcome.status = result.NOT_ATTEMPTED if unfinished else result.CRASHED
    return outcome, failure


def _recognise(release: Release, jail: Jail, judged: list[tuple[CellResult, Failure]], seed: str) -> None:
    """Name the misconceptions whose tests fail, with the same random numbers, in the very same words."""
    known: dict[str, list[Misconception]] = {cell.exercise: [] for cell, _ in judged}
    for one in release.misconceptions:
        known[one.exercise].append(one)
    wrong = {
        cell.grade_id: (cell, failure)
        for cell, failure in judged
        if cell.status in (result.WRONG, result.CRASHED) and failure.message
    }
    if not wrong:
        return
    reference = {cell.grade_id: cell.source for cell in release.cells if cell.grade_id and not cell.is_test}
    theirs = [(cell.exercise, one.source) for cell, _ in wrong.values() for one in known[cell.exercise]]
    steps = [step for step in arrange(release, reference, theirs) if step.kind != HELPER]
    session = Session(release, jail, steps, seed)
    try:
        for step in session.steps():
            if step.id not in wrong:
                continue
            cell, failure = wrong[step.id]
            graded = next(one for one in release.graded if one.grade_id == step.id)
            for one in known[cell.exercise]:
                session.there(Step(HELPER, one.exercise, one.source))
                session.refresh()
                if session.fails_like(graded, failure):
                    cell.misconceptions.append(one.id)
                session.done = [kept for kept in session.done if kept.source != one.source]
            session.there(Step(HELPER, cell.exercise, reference[cell.exercise]))
    except (Gone, RuntimeError):
        return  # the marks stand; only the hint is lost
    finally:
        session.end()
