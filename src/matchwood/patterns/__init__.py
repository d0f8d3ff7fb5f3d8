"""Tests of strings: yes-or-no questions about one text, and an index of many of them."""

from matchwood.patterns.tester import Tester
from matchwood.patterns.tests import (
    AllOf,
    Contains,
    Elements,
    Fails,
    Like,
    Network,
    OneOf,
    Ordered,
    Prefix,
    Regex,
    Suffix,
    Test,
    like_test,
    read_test,
    written_test,
)

__all__ = [
    "AllOf",
    "Contains",
    "Elements",
    "Fails",
    "Like",
    "Network",
    "OneOf",
    "Ordered",
    "Prefix",
    "Regex",
    "Suffix",
    "Test",
    "Tester",
    "like_test",
    "read_test",
    "written_test",
]
