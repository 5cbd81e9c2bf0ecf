import type { DeliveredPolicy } from '@wardline/contract'
import { isForAgent, modeFor, type Policy, readPolicy } from '@wardline/policy'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { readPolicyTarget } from '../instances/tag-statements.ts'
import { readSet, readSetVersion } from './queries.ts'

/** A stored policy, and parts of its JSON, so that a set is put together without reading documents. */
interface DeliverablePolicy {
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

/** The policies of each agent, from what is stored. The version is kept in memory, for the answers to polls and heartbeats. */
export class PolicySets {
  readonly #deps: Pick<Deps, 'database' | 'controlSigner'>
  #version = 0
  #loaded: LoadedSet | undefined

  constructor(deps: Pick<Deps, 'database' | 'controlSigner'>) {
    this.#deps = deps
  }

  /** Version of the sets that this process knows: after its changes at once, after those of other processes within a second. */
  get version(): number {
    return this.#version
  }

  /** Reads the version, after a change and periodically. */
  async refresh(): Promise<void> {
    this.#version = await readSetVersion(this.#deps.database.db)
  }

  /** Notes a change by this process. */
  changed(version: number): void {
    this.#version = Math.max(this.#version, version)
  }

  /** Version of an instance's set. Throws AppError `not_found`. */
  async versionOf(instanceId: string): Promise<number> {
    return (await this.#target(instanceId)).version
  }

  /** Returns the policies of an instance, signed. Throws AppError `not_found`. */
  async read(instanceId: string): Promise<DeliveredPolicy> {
    for (let read = 1; read <= maxReads; read++) {
      const { tags, version } = await this.#target(instanceId)
      const { version: loaded, policies } = this.#loaded?.version === version ? this.#loaded : await this.#load()
      // What is of two versions would be taken for one of them.
      if (loaded === version) return this.#signed(instanceId, tags, { version, policies })
    }
    throw new AppError('overloaded', 'The policies change too fast to be read; retry.', 1)
  }

  async #target(instanceId: string) {
    const target = await readPolicyTarget(this.#deps.database.db, instanceId)
    if (!target) throw unknownInstance(instanceId)
    return target
  }

  async #load(): Promise<LoadedSet> {
    const { policies, version } = await readSet(this.#deps.database.db)
    this.#loaded = {
      version,
      policies: policies.map(({ id, title, version: number, mode, document }) => ({
        policy: { ...readPolicy(JSON.parse(document)).policy, mode },
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
