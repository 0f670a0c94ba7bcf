// Conversations in the browser's database.
import { type IDBPDatabase, openDB } from 'idb';
import type { Conversation } from './exchange';
import type { Message } from './tree';

const kVersion = 1;

/** Where there is no database (a private window may have none), conversations live as long as the page. */
export class Store {
  private constructor(private readonly db: IDBPDatabase | null) {}

  static async open(): Promise<Store> {
    try {
      const db = await openDB('cairn', kVersion, {
        upgrade(made) {
          made.createObjectStore('conversations', { keyPath: 'id' });
          made.createObjectStore('messages', { keyPath: 'id' }).createIndex('conversation', 'conversation');
        },
      });
      return new Store(db);
    } catch {
      return new Store(null);
    }
  }

  get lasting() {
    return this.db !== null;
  }

  async conversations(): Promise<Conversation[]> {
    const all: Conversation[] = this.db ? await this.db.getAll('conversations') : [];
    return all.sort((a, b) => b.updated - a.updated);
  }

  async messages(conversation: string): Promise<Message[]> {
    return this.db ? await this.db.getAllFromIndex('messages', 'conversation', conversation) : [];
  }

  async keep(conversation: Conversation, messages: Message[] = []) {
    if (!this.db) return;
    const change = this.db.transaction(['conversations', 'messages'], 'readwrite');
    void change.objectStore('conversations').put(conversation);
    for (const message of messages) void change.objectStore('messages').put(message);
    await change.done;
  }

  async remove(conversation: string) {
    if (!this.db) return;
    const change = this.db.transaction(['conversations', 'messages'], 'readwrite');
    void change.objectStore('conversations').delete(conversation);
    const messages = change.objectStore('messages');
    for (const key of await messages.index('conversation').getAllKeys(conversation)) void messages.delete(key);
    await change.done;
  }
}
