/** A value of an answer, and the number of the request that it answered. */
interface Known {
  value: string | number
  from: number
}

/** As many newest values of a name are kept. */
const kept = 40
/** Names of the same thing. */
const sameAs: Record<string, string> = {
  instanceId: 'instance_id',
  instances: 'instance_id',
  parent_instance_id: 'instance_id',
  event: 'seq',
  before: 'next',
  after: 'next',
  assignee: 'assignees.id',
  channels: 'channels.id',
}

/** Comments of alerts are alert-comments in paths and comments in answers. */
export const plain = (thing: string) => thing.replace(/^.*[-_]/, '')

/** What earlier requests and answers called by a name, so that later requests can speak of the same things. */
export class AnswerPool {
  readonly #known = new Map<string, Known[]>()
  readonly #protected: ReadonlySet<string | number>

  /** `protectedValues` are never returned, such as ids of keys that the test itself needs. */
  constructor(protectedValues: Iterable<string>) {
    this.#protected = new Set(protectedValues)
  }

  add(name: string, value: unknown, from: number): void {
    const isUsable = (typeof value === 'string' && value !== '' && value.length <= 300) || Number.isSafeInteger(value)
    if (!isUsable || this.#protected.has(value as string)) return
    const called = sameAs[name] ?? name
    const values = this.#known.get(called) ?? []
    this.#known.set(called, values)
    // Its first request is the one that made it; later ones only show it.
    const at = values.findIndex((one) => one.value === value)
    values.push(at === -1 ? { value: value as string, from } : values.splice(at, 1)[0]!)
    if (values.length > kept) values.shift()
  }

  /** Adds all values under their names, and ids under the names of the things: `alerts.id`. */
  harvest(body: unknown, things: readonly string[], from: number): void {
    if (Array.isArray(body)) {
      for (const item of body.slice(0, 5)) this.harvest(item, things, from)
      return
    }
    if (typeof body !== 'object' || body === null) return
    for (const [name, value] of Object.entries(body)) {
      if (typeof value === 'object') {
        const isList = Array.isArray(value)
        if (isList) for (const item of value.slice(0, 5)) this.add(name, item, from)
        this.harvest(value, isList ? [name] : things, from)
        continue
      }
      this.add(name, value, from)
      for (const thing of things) this.add(`${plain(thing)}.${name}`, value, from)
    }
  }

  /** A value of this name; newer ones are likelier. `pick` draws from a list. */
  find(name: string, pick: <Item>(items: readonly Item[]) => Item): Known | undefined {
    const values = this.#known.get(sameAs[name] ?? name)
    return values && pick([values, values.slice(-3), values.slice(-1)].map((some) => pick(some)))
  }
}
