"""PLT-13: psycopg calls Punctual's SQL functions inside its own transactions.

The body of `place` is the guide's example to the letter (docs/guide/sql.md); a test compares the two.
"""

import sys

import psycopg
from psycopg.types.json import Jsonb



def place(connection):
    with connection.transaction():
        connection.execute("insert into orders values (%s, %s)", (7, "a lamp"))
        connection.execute(
            "select punctual.enqueue('orders', %s, kind => 'order.placed')", (Jsonb({"order": 7}),)
        )


url = sys.argv[1]
with psycopg.connect(url) as connection:
    connection.execute("create table shop_order (number int primary key)")
    connection.commit()

    connection.execute("insert into shop_order values (1)")
    connection.execute("select punctual.enqueue('orders', %s)", ('{"order": 1}',))
    connection.execute("select punctual.schedule('orders', '{}', now() + interval '1 day')")
    connection.rollback()
    for table in ("shop_order", "punctual.message", "punctual.work"):
        left = connection.execute(f"select count(*) from {table}").fetchone()[0]
        assert left == 0, f"a rollback left {left} rows in {table}"

    connection.execute("insert into shop_order values (2)")
    made = connection.execute(
        "select punctual.enqueue(topic => 'orders', payload => %s, kind => 'order.placed', key => 'k',"
        " correlation_id => 'story', headers => %s, source => 'psycopg', id => 'order-2')",
        (Jsonb({"order": 2, "by": "psycopg"}), Jsonb({"trace": "t"})),
    ).fetchone()[0]
    again = connection.execute(
        "select punctual.enqueue('orders', '{}', source => 'psycopg', id => 'order-2')"
    ).fetchone()[0]
    assert made == again, "the same id is the same message"
    timers = [
        connection.execute(
            "select punctual.schedule('orders', %s, now() + interval '1 hour')", ('{"timer": %d}' % n,)
        ).fetchone()[0]
        for n in (1, 2)
    ]
    connection.commit()

    assert connection.execute("select punctual.cancel_timer(%s)", (timers[0],)).fetchone()[0] is True
    connection.rollback()
    assert connection.execute("select punctual.cancel_timer(%s)", (timers[1],)).fetchone()[0] is True
    assert connection.execute("select punctual.cancel_timer(%s)", (timers[1],)).fetchone()[0] is False
    connection.commit()

    try:
        connection.execute("select punctual.enqueue('a/b', '{no json')")
        raise SystemExit("a wrong message was not refused")
    except psycopg.errors.InvalidParameterValue as refused:
        said = refused.diag.message_primary
        assert "topic: must not contain `/`" in said and "payload: is not JSON" in said, said
    connection.rollback()

    connection.execute("create table orders (number int primary key, what text)")
    connection.commit()
    place(connection)
    try:
        # The order is there: its insert fails before the call.
        place(connection)
        raise SystemExit("the same order was placed twice")
    except psycopg.errors.UniqueViolation:
        pass
