// PLT-13: node-postgres calls Punctual's SQL functions inside its own transactions. The body of `place` is the guide's
// example to the letter (docs/guide/sql.md); a test compares the two.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.PUNCTUAL_CLIENTS}/`);
const { Client } = require("pg");

const client = new Client({ connectionString: process.argv[2] });
await client.connect();
const one = async (sql, values) => Object.values((await client.query(sql, values)).rows[0])[0];

await client.query("create table shop_order (number int primary key)");

await client.query("begin");
await client.query("insert into shop_order values (1)");
await client.query("select punctual.enqueue('orders', $1)", [JSON.stringify({ order: 1 })]);
await client.query("rollback");
for (const table of ["shop_order", "punctual.message", "punctual.work"]) {
  assert.equal(await one(`select count(*)::int from ${table}`), 0, `a rollback left rows in ${table}`);
}

await client.query("begin");
await client.query("insert into shop_order values (2)");
const made = await one(
  "select punctual.enqueue(topic => 'orders', payload => $1, kind => 'order.placed', key => 'k', " +
    "correlation_id => 'story', headers => $2, source => 'node', id => 'order-2')",
  [{ order: 2, by: "node" }, { trace: "t" }],
);
const again = await one("select punctual.enqueue('orders', '{}', source => 'node', id => 'order-2')");
assert.equal(made, again, "the same id is the same message");
const due = new Date(Date.now() + 3600_000);
const first = await one("select punctual.schedule('orders', $1, $2)", [{ timer: 1 }, due]);
const second = await one("select punctual.schedule('orders', $1, $2)", [{ timer: 2 }, due]);
await client.query("commit");

await client.query("begin");
assert.equal(await one("select punctual.cancel_timer($1)", [first]), true);
await client.query("rollback");
assert.equal(await one("select punctual.cancel_timer($1)", [second]), true);
assert.equal(await one("select punctual.cancel_timer($1)", [second]), false);

await assert.rejects(client.query("select punctual.enqueue('a/b', '{no json')"), (refused) => {
  assert.equal(refused.code, "22023");
  assert.match(refused.message, /topic: must not contain `\/`.*payload: is not JSON/);
  return true;
});

async function place() {
  await client.query("begin");
  await client.query("insert into orders values ($1, $2)", [7, "a lamp"]);
  await client.query("select punctual.enqueue('orders', $1, kind => 'order.placed')", [{ order: 7 }]);
  await client.query("commit");
}

await client.query("create table orders (number int primary key, what text)");
await place();
// The order is there: its insert fails before the call.
await assert.rejects(place, (refused) => refused.code === "23505");
await client.query("rollback");
await client.end();
