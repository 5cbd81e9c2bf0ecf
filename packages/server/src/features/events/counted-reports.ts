import type { Deps } from '../../deps.ts'
import type { Ingest } from './ingest.ts'
import type { OwnEvent } from './new-event.ts'

/** A subject that may repeat thousands of times a second is reported once per period. */
const reportEveryMs = 60_000
/** Subjects per owner and kind within a minute. Callers choose some of them, such as instances under a prefix. */
const maxPerOwner = 20
/** Subjects per kind: bounds the memory, and no kind can displace another. */
const maxPerKind = 1_000

/** An occurrence. `kind` is an event type, `owner` the key or address that caused it. */
interface Occurrence {
  kind: string
  owner: string
  /** Name chosen by the owner; without it all occurrences of the owner are counted together. */
  name?: string
}

interface Subject {
  owner: string
  reportedAt: number
  /** Occurrences since the last report. */
  count: number
  /** Occurrences since the last report, by part. */
  parts: Parts
  describe(count: number, parts: Parts): OwnEvent
}

type Parts = Record<string, number>

interface Kind {
  /** Keyed by `<owner> <name>`; beyond the limit of an owner by `<owner>`, beyond the limit of the kind by ''. */
  subjects: Map<string, Subject>
  perOwner: Map<string, number>
}

/** Describes several subjects by the latest one, without its instance and address. */
const describeTogether =
  (describe: Subject['describe']): Subject['describe'] =>
  (count, parts) => {
    const { instance_id: _instance, ip_address: _address, ...event } = describe(count, parts)
    return {
      ...event,
      description: `${event.description} (the latest of several reports counted together)`,
      metadata: { ...event.metadata, counted_together: true },
    }
  }

/**
 * Reports by the service about repeated actions of callers. The first occurrence of a subject is stored at once, later
 * ones together after a minute, with their count. Callers do not wait for the database.
 */
export class CountedReports {
  readonly #deps: Pick<Deps, 'clock' | 'log'>
  readonly #ingest: Pick<Ingest, 'own' | 'store'>
  readonly #kinds = new Map<string, Kind>()

  constructor(deps: Pick<Deps, 'clock' | 'log'>, ingest: Pick<Ingest, 'own' | 'store'>) {
    this.#deps = deps
    this.#ingest = ingest
  }

  /**
   * Counts occurrences. `describe` builds the event from their number since the last report, in total and by part.
   */
  note({ kind, owner, name = '' }: Occurrence, describe: Subject['describe'], amount = 1, part = ''): void {
    const ofKind = this.#kinds.get(kind) ?? { subjects: new Map(), perOwner: new Map() }
    this.#kinds.set(kind, ofKind)
    const { subjects, perOwner } = ofKind
    const own = `${owner} ${name}`
    let found = own
    if (!subjects.has(found) && (perOwner.get(owner) ?? 0) >= maxPerOwner) found = owner
    if (!subjects.has(found) && subjects.size >= maxPerKind) found = ''
    const described = found === own ? describe : describeTogether(describe)
    const known = subjects.get(found)
    if (known) {
      known.count += amount
      known.parts[part] = (known.parts[part] ?? 0) + amount
      known.describe = described
      return
    }
    if (found === own) perOwner.set(owner, (perOwner.get(owner) ?? 0) + 1)
    const parts = { [part]: amount }
    const added = { owner, reportedAt: this.#deps.clock.monotonic(), count: amount, parts, describe: described }
    subjects.set(found, added)
    void this.#report(added)
  }

  /** Periodic job: reports subjects that repeated, and drops the others. */
  async run(): Promise<void> {
    const now = this.#deps.clock.monotonic()
    const due: Subject[] = []
    for (const kind of this.#kinds.values()) {
      for (const [found, subject] of kind.subjects) {
        if (now - subject.reportedAt < reportEveryMs) continue
        if (subject.count > 0) due.push(subject)
        else this.#forget(kind, found, subject)
      }
    }
    await Promise.all(
      due.map((subject) => {
        subject.reportedAt = now
        return this.#report(subject)
      }),
    )
  }

  /** Call on shutdown: reports all pending counts. */
  async flush(): Promise<void> {
    const subjects = [...this.#kinds.values()].flatMap((kind) => [...kind.subjects.values()])
    await Promise.all(subjects.map((subject) => subject.count > 0 && this.#report(subject)))
  }

  #forget({ subjects, perOwner }: Kind, found: string, { owner }: Subject): void {
    subjects.delete(found)
    if (found === owner || found === '') return
    const left = perOwner.get(owner)! - 1
    if (left > 0) perOwner.set(owner, left)
    else perOwner.delete(owner)
  }

  async #report(subject: Subject): Promise<void> {
    const { count, parts } = subject
    subject.count = 0
    subject.parts = {}
    try {
      await this.#ingest.store([this.#ingest.own(subject.describe(count, parts))])
    } catch (fault) {
      // Keep the count for the next report, since the database is unavailable.
      subject.count += count
      for (const [part, amount] of Object.entries(parts)) subject.parts[part] = (subject.parts[part] ?? 0) + amount
      this.#deps.log.warn({ err: fault }, 'a report of the service was not stored and is retried')
    }
  }
}
