"""Enqueue and schedule from Python, inside the transaction that writes your own rows.

    python3 examples/sql_function.py postgres://user@host/database

Needs psycopg (pip install 'psycopg[binary]') and a database that Punctual has migrated. The
Rust example `sql_function` runs it against its own server, and handles its messages.
"""

import json
import sys

import psycopg
from psycopg.types.json import Jsonb

with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("create table if not exists orders (number int primary key, item text)")
    connection.commit()

    # The order, its message and its reminder commit together, or not at all.
    with connection.transaction():
        connection.execute("insert into orders values (%s, %s)", (7, "a lamp"))
        message = connection.execute(
            "select punctual.enqueue('orders', %s, kind => 'order.placed', key => %s)",
            (Jsonb({"order": 7, "item": "a lamp"}), "customer-4"),
        ).fetchone()[0]
        timer = connection.execute(
            "select punctual.schedule('reminders', %s, now() + interval '1 second', correlation_id => 'order-7')",
            (json.dumps({"order": 7}),),
        ).fetchone()[0]
    print(f"order 7: message {message}, reminder {timer}")

    # Rolled back means never sent.
    try:
        with connection.transaction():
            connection.execute("insert into orders values (%s, %s)", (8, "a chair"))
            connection.execute("select punctual.enqueue('orders', '{\"order\": 8}', kind => 'order.placed')")
            raise RuntimeError("out of chairs")
    except RuntimeError as error:
        print(f"order 8: {error}, so nothing is sent")
