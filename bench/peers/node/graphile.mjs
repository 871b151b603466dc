// graphile-worker (Node) with its batch settings: `graphile.mjs enqueue|drain`.
// A drain is timed from the first handler call until the database holds no job any more.
import { Logger, makeWorkerUtils, run, WorkerPreset } from "graphile-worker";
import { answer, chunks, execute, gone, n, payloads, seconds, url } from "./driver.mjs";

const preset = {
  extends: [WorkerPreset],
  worker: {
    connectionString: url,
    logger: new Logger(() => () => {}),
    concurrentJobs: 100,
    maxPoolSize: 20,
    localQueue: { size: 2000 },
    completeJobBatchDelay: 5,
    failJobBatchDelay: 5,
  },
};

async function enqueue(helper) {
  await execute("truncate graphile_worker._private_jobs");
  const jobs = payloads().map((payload) => ({ identifier: "noop", payload }));
  const start = seconds();
  for (const some of chunks(jobs)) await helper.addJobs(some);
  return seconds() - start;
}

async function drain() {
  let handled = 0, first = 0, finish;
  const all = new Promise((done) => (finish = done));
  const noop = async () => {
    first ||= seconds();
    if (++handled === n) finish();
  };
  await run({ preset, taskList: { noop } });
  await all;
  await gone("select 1 from graphile_worker._private_jobs limit 1");
  return seconds() - first;
}

const op = process.argv[2];
const helper = await makeWorkerUtils({ preset });
await helper.migrate();
if (op === "enqueue") answer(op, await enqueue(helper));
else if (op === "drain") answer(op, await drain());
else throw new Error(`unknown operation ${op}: enqueue or drain`);
