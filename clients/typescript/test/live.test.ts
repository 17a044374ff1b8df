import assert from "node:assert/strict";
import { test } from "node:test";

import { client, collect, control } from "./harness.ts";

test("a live answer is read whole, once and in order, though the service is killed", async () => {
  const thread = client().thread("live");
  await control("start/writer");
  let text = "";
  let status: string | undefined;
  let events = 0;
  for await (const event of thread.live("r", { wait: 30 })) {
    text = event.kind === "begin" ? "" : text + (event.text ?? "");
    if (event.kind === "end") status = event.status;
    if (++events === 5) {
      await control("kill/service");
      await control("start/service");
    }
  }
  const words = Array.from({ length: 100 }, (_, number) => `word-${number} `);
  assert.deepEqual([status, text], ["done", words.join("")]);
  const lives = await collect(thread.lives());
  assert.deepEqual(
    lives.map((each) => [each.request, each.status]),
    [["r", "done"]],
  );
  assert.equal(await thread.stop("r"), false);
});
