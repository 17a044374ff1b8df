/** Something that has an id, and perhaps belongs to a user. */

import type { Client, Whose } from "./client.js";

export abstract class Noun {
  protected readonly client: Client;
  readonly id: string;
  readonly user: string | undefined;

  constructor(client: Client, id: string, { user }: Whose = {}) {
    this.client = client;
    this.id = id;
    this.user = user;
  }
}
