import type { DeliveredPolicy } from '@wardline/contract'
import { askOf, isForAgent, mayRestrict, modeFor, type Policy, readPolicy } from '@wardline/policy'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { SharedRun } from '../../shared-run.ts'
import { readOperatorTagsOf, readPolicyTarget } from '../instances/tag-statements.ts'
import { readSet, readSetVersion } from './queries.ts'

/** A stored policy, and parts of its JSON, so that a set is put together without reading documents. */
interface DeliverablePolicy {
  id: string
  version: number
  policy: Policy
  /** JSON up to the mode, and after it. */
  head: string
  tail: string
}

interface LoadedSet {
  version: number
  policies: readonly DeliverablePolicy[]
}

/** Reads of a version that changes meanwhile, in which an instance of a busy deployment is asked again. */
const maxReads = 5

/**
 * Time between two notices to the streams, on which each agent fetches its set: a script that tags a fleet changes the version
 * with every request.
 */
const announceEveryMs = 5_000

interface StoredAsk {
  title: string
  ask: ReturnType<typeof askOf>
}

type SetDeps = Pick<Deps, 'database' | 'controlSigner' | 'bus' | 'clock'>

/** The policies of each agent, from what is stored. The version is kept in memory, for the answers to polls and heartbeats. */
export class PolicySets {
  readonly #deps: SetDeps
  #version = 0
  /** Version of the last notice, of any process. */
  #announced = 0
  #announcedAt = 0
  #loaded: LoadedSet | undefined
  /** After a change the whole fleet asks at once. */
  readonly #loads = new SharedRun(() => this.#load())

  constructor(deps: SetDeps) {
    this.#deps = deps
    deps.bus.onNotice((notice) => {
      if (notice.action !== 'policy') return
      this.#note(notice.version)
      this.#announced = Math.max(this.#announced, notice.version)
    })
  }

  /** Reads the version at startup. Agents that connect see it in the answers to their heartbeats. */
  async open(): Promise<void> {
    await this.#read()
    this.#announced = this.#version
  }

  /** Version of the sets that this process knows: after its changes at once, after those of other processes within a second. */
  get version(): number {
    return this.#version
  }

  /** Reads the version, after a change of tags and periodically, and announces a new one. */
  async refresh(): Promise<void> {
    await this.#read()
    this.#announce()
  }

  /** Notes a change by this process, and announces it. */
  changed(version: number): void {
    this.#note(version)
    this.#announce()
  }

  async #read(): Promise<void> {
    const before = this.#version
    const version = await readSetVersion(this.#deps.database.db)
    // A change that was noted meanwhile may be newer than what was read.
    if (this.#version === before) this.#version = version
  }

  #note(version: number): void {
    this.#version = Math.max(this.#version, version)
  }

  /** Processes that a notice did not reach announce what they read. */
  #announce(): void {
    const now = this.#deps.clock.now()
    const isEarly = Math.abs(now - this.#announcedAt) < announceEveryMs
    if (this.#version <= this.#announced || isEarly) return
    this.#announcedAt = now
    this.#deps.bus.publishNotice({ action: 'policy', version: this.#version })
  }

  /** Version of an instance's set. Throws AppError `not_found`. */
  async versionOf(instanceId: string): Promise<number> {
    return (await this.#target(instanceId)).version
  }

  /** Returns the policies of an instance, signed. Throws AppError `not_found`. */
  async read(instanceId: string): Promise<DeliveredPolicy> {
    for (let read = 1; read <= maxReads; read++) {
      const { tags, version } = await this.#target(instanceId)
      const { version: loaded, policies } = this.#loaded?.version === version ? this.#loaded : await this.#loads.get()
      // What is of two versions would be taken for one of them.
      if (loaded === version) return this.#signed(instanceId, tags, { version, policies })
    }
    throw new AppError('overloaded', 'The policies change too fast to be read; retry.', 1)
  }

  /**
   * Returns the title of a stored policy, and what its rule decides, how many operators it asks and how long its questions
   * wait. Undefined if the policy is not stored; `ask` is undefined if it has no such rule any more.
   * `rule`: as in decisions, `flow` or null for the default.
   */
  async askOf(policyId: string, rule: string | null): Promise<StoredAsk | undefined> {
    const version = await readSetVersion(this.#deps.database.db)
    const { policies } = this.#loaded?.version === version ? this.#loaded : await this.#loads.get()
    const stored = policies.find(({ id }) => id === policyId)
    return stored && { title: stored.policy.title, ask: askOf(stored.policy, rule) }
  }

  /** Returns those of the instances to which a stored policy applies, enforced or observed. */
  async appliesTo(instanceIds: readonly string[]): Promise<Set<string>> {
    const { db } = this.#deps.database
    const version = await readSetVersion(db)
    const { policies } = this.#loaded?.version === version ? this.#loaded : await this.#loads.get()
    if (policies.length === 0) return new Set()
    const tags = await readOperatorTagsOf(db, instanceIds)
    const isFor = (id: string) =>
      policies.some(({ policy }) => isForAgent(policy.for, { id, tags: tags.get(id) ?? [] }))
    return new Set(instanceIds.filter(isFor))
  }

  /** Whether an enforced policy of the instance may deny one of these tools, or ask about it. Throws AppError `not_found`. */
  async restricts(instanceId: string, tools: readonly string[]): Promise<boolean> {
    const { tags, version } = await this.#target(instanceId)
    const { policies } = this.#loaded?.version === version ? this.#loaded : await this.#loads.get()
    const agent = { id: instanceId, tags }
    return policies.some(
      ({ policy }) =>
        isForAgent(policy.for, agent) &&
        modeFor(policy, agent) === 'enforce' &&
        tools.some((tool) => mayRestrict(policy, tool)),
    )
  }

  async #target(instanceId: string) {
    const target = await readPolicyTarget(this.#deps.database.db, instanceId)
    if (!target) throw unknownInstance(instanceId)
    return target
  }

  async #load(): Promise<LoadedSet> {
    const { policies, version } = await readSet(this.#deps.database.db)
    // A document belongs to a version of its policy. A change of tags changes none.
    const known = new Map(this.#loaded?.policies.map((one) => [`${one.id} ${one.version}`, one.policy]))
    this.#loaded = {
      version,
      policies: policies.map(({ id, title, version: number, mode, document }) => ({
        id,
        version: number,
        policy: { ...(known.get(`${id} ${number}`) ?? readPolicy(JSON.parse(document)).policy), mode },
        head: `${JSON.stringify({ id, title, version: number }).slice(0, -1)},"mode":"`,
        tail: `","document":${document}}`,
      })),
    }
    return this.#loaded
  }

  #signed(instanceId: string, tags: readonly string[], { version, policies }: LoadedSet): DeliveredPolicy {
    const agent = { id: instanceId, tags }
    const own = policies
      .filter(({ policy }) => isForAgent(policy.for, agent))
      .map(({ policy, head, tail }) => `${head}${modeFor(policy, agent)}${tail}`)
    const body = `{"agent":${JSON.stringify(agent)},"policies":[${own.join(',')}]}`
    const set = { instance_id: instanceId, version, body }
    return { ...set, signature_ed25519: this.#deps.controlSigner.signPolicySet(set) }
  }
}
