import { createHash } from 'node:crypto'
import { SessionMemory } from '@wardline/policy'

/** Sessions that are remembered, up to 256 KiB each: those used last. */
const maxSessions = 200
/** Sessions of which is only remembered that tools answered in them, about 100 bytes each. */
const maxForgotten = 20_000
/** Characters of a prompt that are remembered. SessionMemory keeps fewer words than that. */
const maxPrompt = 256 * 1024
/** Prompts of a session that are recognized: frameworks pass the whole conversation with every step. */
const maxPrompts = 200

interface Session {
  memory: SessionMemory
  /** Hashes of its prompts, the oldest first. */
  prompts: Set<string>
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url')

/** The memory of a session that was forgotten. It counts as one that read untrusted text: what is forgotten is asked. */
export const forgottenMemory = (): SessionMemory => new SessionMemory({ ...new SessionMemory().stored(), more: true })

/** What the sessions of an agent have met. Calls without a session share one. */
export class Sessions {
  readonly #sessions = new Map<string, Session>()
  readonly #forgotten = new Set<string>()

  memoryOf(sessionId: string | undefined): SessionMemory {
    return this.#of(sessionId).memory
  }

  /** Remembers what a person wrote, once. */
  prompt(text: string, sessionId: string | undefined): void {
    const { memory, prompts } = this.#of(sessionId)
    const hash = hashOf(text)
    if (prompts.has(hash)) return
    prompts.add(hash)
    if (prompts.size > maxPrompts) prompts.delete(prompts.values().next().value!)
    memory.prompt(text.slice(0, maxPrompt))
  }

  #of(sessionId: string | undefined): Session {
    const id = String(sessionId ?? '')
    const session = this.#sessions.get(id) ?? { memory: this.#begin(id), prompts: new Set<string>() }
    this.#sessions.delete(id)
    this.#sessions.set(id, session)
    if (this.#sessions.size > maxSessions) this.#forgetOldest()
    return session
  }

  #begin(id: string): SessionMemory {
    return this.#forgotten.has(hashOf(id)) ? forgottenMemory() : new SessionMemory()
  }

  #forgetOldest(): void {
    const [[id, { memory }]] = this.#sessions as unknown as [[string, Session]]
    this.#sessions.delete(id)
    if (!memory.hasMoreTools && memory.answered(() => true) === undefined) return
    const hash = hashOf(id)
    this.#forgotten.delete(hash)
    this.#forgotten.add(hash)
    if (this.#forgotten.size > maxForgotten) this.#forgotten.delete(this.#forgotten.values().next().value!)
  }
}
