"""Every error becomes a problem document that says what it said, and a client gets the same error back."""

from __future__ import annotations

import json

import pytest

from matchwood import Engine, errors
from matchwood.broker.problems import INTERNAL, TITLES, Problem, error_of, problem_of, problem_of_status

CLASSES = sorted(
    (value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.MatchwoodError)),
    key=lambda class_: class_.__name__,
)


def made(class_: type[errors.MatchwoodError]) -> errors.MatchwoodError:
    return class_("too odd", "age >", 5) if class_ is errors.ParseError else class_("too odd")


@pytest.mark.parametrize("class_", CLASSES, ids=lambda class_: class_.__name__)
def test_every_class_has_a_status_and_comes_back_as_itself(class_: type[errors.MatchwoodError]) -> None:
    assert class_ in TITLES
    error = made(class_)
    problem = problem_of(error)
    document = json.loads(json.dumps(problem.to_json()))
    assert 400 <= document["status"] == problem.status < 600
    assert document["detail"] == str(error)
    again = error_of(problem.status, document)
    assert type(again) is class_
    assert str(again) == str(error)


def test_the_detail_is_the_message_of_the_engine_with_its_caret() -> None:
    engine = Engine()
    with pytest.raises(errors.ParseError) as refused:
        engine.subscribe("age >", id=4)
    problem = problem_of(refused.value)
    assert problem.status == 422
    assert problem.detail == str(refused.value)
    assert problem.extensions == {"expression": "age >", "position": 5}
    again = error_of(422, problem.to_json())
    assert isinstance(again, errors.ParseError)
    assert (again.text, again.position) == ("age >", 5)


def test_types_are_names_of_classes_without_error() -> None:
    types = {problem_of(made(class_)).type for class_ in CLASSES}
    assert len(types) == len(CLASSES)
    assert "urn:matchwood:problem:value-type" in types


def test_a_subclass_that_the_table_does_not_know_is_told_as_its_parent() -> None:
    class Odd(errors.EventError):
        pass

    assert problem_of(Odd("no")) == problem_of(errors.EventError("no"))


def test_what_is_not_ours_says_nothing_about_itself() -> None:
    problem = problem_of(RuntimeError("password=hunter2"))
    assert problem.status == 500
    assert problem.detail == INTERNAL
    assert "hunter2" not in json.dumps(problem.to_json())


def test_an_error_without_a_message_has_its_title_for_detail() -> None:
    assert problem_of(errors.NotFoundError()).detail == "There is no such thing"


def test_an_error_may_bring_its_own_status_and_when_to_come_again() -> None:
    error = errors.ConflictError("revision 4 is not the current one, which is 5")
    error.status = 412
    assert problem_of(error).status == 412
    quota = errors.QuotaError("100 events a second are allowed")
    quota.retry_after = 2.6
    assert problem_of(quota).headers == {"Retry-After": "3"}
    assert problem_of(errors.AuthenticationError("no")).headers == {"WWW-Authenticate": 'Bearer realm="matchwood"'}


@pytest.mark.parametrize(
    ("status", "class_"),
    [
        (400, errors.RequestError),
        (401, errors.AuthenticationError),
        (404, errors.NotFoundError),
        (412, errors.ConflictError),
        (418, errors.RequestError),
        (429, errors.QuotaError),
        (500, errors.ServiceError),
        (503, errors.UnavailableError),
    ],
)
@pytest.mark.parametrize("body", [None, "<html>", [], {}, {"type": "about:blank", "title": "Nope"}])
def test_an_answer_that_is_no_problem_document_is_told_by_its_status(
    status: int, class_: type[errors.MatchwoodError], body: object
) -> None:
    error = error_of(status, body, retry_after=4.0)
    assert type(error) is class_
    assert str(error) in ("Nope", f"the broker answered {status} without saying why")
    assert isinstance(error, errors.ServiceError)
    assert (error.status, error.retry_after) == (status, 4.0)


def test_a_refusal_of_the_framework_has_the_phrase_of_its_status() -> None:
    assert problem_of_status(405, "PUT is not offered here") == Problem(
        405, "about:blank", "Method Not Allowed", "PUT is not offered here"
    )
