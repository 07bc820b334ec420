"""Internal consistency after Jamie Brandon: transfers between accounts keep the total balance zero in every epoch."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.pipeline.choose import plain
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.rules.test_recomputation import same_rows

SCRIPT = """
CREATE TABLE Transactions (id INT NOT NULL, from_account INT, to_account INT, amount BIGINT, PRIMARY KEY (id));
Credits := SELECT to_account AS account, sum(amount) AS credits FROM Transactions GROUP BY to_account;
Debits := SELECT from_account AS account, sum(amount) AS debits FROM Transactions GROUP BY from_account;
Balance := SELECT coalesce(c.account, d.account) AS account, coalesce(credits, 0) - coalesce(debits, 0) AS balance
           FROM Credits c FULL JOIN Debits d ON c.account = d.account;
Total := SELECT sum(balance) AS total FROM Balance;
Richest := SELECT account, balance FROM Balance ORDER BY balance DESC, account LIMIT 3;
Indebted := SELECT account FROM Balance WHERE balance < (SELECT avg(balance) FROM Balance);
"""

PLAIN = plain(share=False)
POSTGRES = pytest.param("postgres", PLAIN, marks=pytest.mark.postgres)


@pytest.mark.parametrize(
    ("each_store", "options"),
    [("sqlite", Options()), POSTGRES, *at_night([("postgres", Options()), ("sqlite", PLAIN)])],
    indirect=["each_store"],
    ids=["sqlite-cheaper", "postgres-plain", "postgres-cheaper", "sqlite-plain"],
)
def test_the_total_is_zero_in_every_epoch(executor: Any, each_store: str, options: Options) -> None:
    random = Random(7)
    wb = Workbench(SCRIPT, spark=executor, options=options)
    for epoch in range(4):
        rows = [
            {
                "id": random.randrange(40),
                "from_account": random.randrange(9),
                "to_account": random.randrange(9),
                "amount": 10,
            }
            for _ in range(20)
        ]
        wb.insert("Transactions", rows)
        if epoch:
            wb.delete("Transactions", [{"id": random.randrange(40)}])
        wb.step()
        assert wb.rows("Total") == [{"total": 0}]
        for view, batch in wb.batches(("Credits", "Debits", "Balance", "Richest", "Indebted")).items():
            assert same_rows(wb.rows(view), batch), view
        if epoch == 2:
            wb.restart()
    wb.close()


def test_global_aggregates_have_a_row_over_nothing(executor: Any) -> None:
    wb = Workbench(SCRIPT + "Many := SELECT count(*) AS n, max(amount) AS most FROM Transactions;", spark=executor)
    wb.step()
    assert wb.rows("Total") == [{"total": None}]
    assert wb.rows("Many") == [{"n": 0, "most": None}]
    wb.close()


LONG = """
CREATE TABLE _Texts (body STRING, n INT);
_ByText := SELECT body, sum(n) AS n FROM _Texts GROUP BY body;
Shown := SELECT body, sum(n) AS n FROM _Texts GROUP BY body;
_Words := SELECT DISTINCT body FROM _Texts;
_Both := SELECT t.body, t.n FROM _ByText t JOIN _Words w ON t.body = w.body;
Sizes := SELECT sha2(body, 256) AS text, sum(n) AS n FROM _Both GROUP BY sha2(body, 256);
"""


@pytest.mark.usefixtures("each_store")
def test_keys_may_be_long(executor: Any) -> None:
    """Beyond what an index of Postgres takes, also where they cannot be compressed, and where they differ at their
    end."""
    text = Random(1).randbytes(4_000).hex()
    texts = [text, f"{text}b", "short", None, "é" * 999, "~~" + "0" * 64]
    wb = Workbench(LONG, spark=executor)
    try:
        for epoch in range(2):
            wb.insert("_Texts", [{"body": t, "n": n + epoch} for n, t in enumerate(texts)])
            if epoch:
                wb.delete("_Texts", [{"body": text, "n": 0}])
            wb.step()
            for view, batch in wb.batches(("Sizes", "Shown")).items():
                assert same_rows(wb.rows(view), batch)
        assert sorted(r["n"] for r in wb.rows("Sizes")) == [1, 3, 5, 9, 11]
    finally:
        wb.close()
