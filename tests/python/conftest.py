# SPDX-License-Identifier: BSD-3-Clause
"""One context for all tests of a process; a job's ranks run the same tests in the same order."""

import os

import pytest

import tutti


@pytest.fixture(scope="session")
def ctx(request):
    """The context of this rank."""
    context = tutti.init(timeout_ms=60000)
    yield context
    # After a failure, requests and windows of that test may be left.
    if not request.session.testsfailed:
        context.finalize()


@pytest.fixture
def world(ctx):
    """The communicator of all ranks."""
    return ctx.world


def pytest_report_header():
    """Which rank this output is of."""
    return f"rank {os.environ.get('TUTTI_RANK', '0')}"
