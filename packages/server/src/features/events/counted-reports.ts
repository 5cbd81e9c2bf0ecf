import type { Deps } from '../../deps.ts'
import type { Ingest } from './ingest.ts'
import type { OwnEvent } from './new-event.ts'

/** What may repeat thousands of times a second is reported once a minute for each subject. */
const reportEveryMs = 60_000
/** Subjects of one owner and kind within a minute. Callers choose some of them, such as instances under a prefix. */
const maxPerOwner = 20
/** Subjects of one kind: so much memory for each, and no kind takes the place of another. */
const maxPerKind = 1_000

/** What repeats: its kind is an event type, its owner the key or the address that it comes from. */
interface Occurrence {
  kind: string
  owner: string
  /** What the owner chose; absent: everything of the owner is counted as one. */
  name?: string
}

interface Subject {
  owner: string
  reportedAt: number
  /** Occurrences since the last report. */
  count: number
  /** The same by part. */
  parts: Parts
  describe(count: number, parts: Parts): OwnEvent
}

type Parts = Record<string, number>

interface Kind {
  /** By `<owner> <name>`; what is beyond the share of an owner by `<owner>`, beyond that of the kind by ''. */
  subjects: Map<string, Subject>
  perOwner: Map<string, number>
}

/** Of several subjects only the latest is described: the event must not be that of its instance or address alone. */
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
 * Events by which the service reports what others do to it. The first occurrence of a subject is stored at once, later
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
   * Notes occurrences. `describe` makes the event from their number since the last report, and from that of each part.
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

  /** Periodic work: reports what repeated, and forgets what did not. */
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

  /** Reports what has not been yet: with the process the counts would be gone. */
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
      // The count goes into the next report: nothing that happened is lost with a database that is away.
      subject.count += count
      for (const [part, amount] of Object.entries(parts)) subject.parts[part] = (subject.parts[part] ?? 0) + amount
      this.#deps.log.warn({ err: fault }, 'a report of the service was not stored and is retried')
    }
  }
}
