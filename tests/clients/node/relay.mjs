// One turn of a conversation, added by OpenAI's own client for Node. Prints what it has read before.

import OpenAI from "openai";

const { baseURL, apiKey, conversation, items } = JSON.parse(process.env.STATEWARD_TESTS);
const { conversations } = new OpenAI({ baseURL, apiKey });

const seen = [];
for await (const item of conversations.items.list(conversation, { order: "asc", limit: 7 })) {
  seen.push(item);
}
await conversations.items.create(conversation, { items });
console.log(JSON.stringify(seen));
