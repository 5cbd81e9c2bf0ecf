import { type AuditChain, type ChainVerdict, type Checkpoint, eventTypes } from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import { claimRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from '../events/ingest.ts'
import { auditCheckpoint, verifyAudit } from './audit.ts'
import { signCheckpoint } from './signed-checkpoint.ts'

/** An altered log stays altered, so it is reported once a day instead of at each verification. */
const reportEveryMs = dayMs

/** Writes checkpoints of the audit chain to the log, and verifies the chain. */
export class ChainWatch {
  readonly #deps: Deps
  readonly #ingest: Pick<Ingest, 'own' | 'store'>
  #checkpoint: Checkpoint | undefined
  #verified: { at: number; verdict: ChainVerdict } | undefined

  constructor(deps: Deps, { ingest }: { ingest: Pick<Ingest, 'own' | 'store'> }) {
    this.#deps = deps
    this.#ingest = ingest
  }

  /** Writes a checkpoint to the service log. Logs are shipped elsewhere, so it reveals a later rewrite of the chain. */
  async writeCheckpoint(): Promise<void> {
    const { database, clock, log } = this.#deps
    const checkpoint = await auditCheckpoint(database.db, clock.now())
    if (checkpoint.seq === (this.#checkpoint?.seq ?? 0)) return
    log.info({ checkpoint: await signCheckpoint(this.#deps, checkpoint) }, 'audit checkpoint')
    this.#checkpoint = checkpoint
  }

  /** Verifies the whole chain and the last checkpoint of this process. Rejects if an entry was altered. */
  async verify(): Promise<void> {
    const { database, clock } = this.#deps
    const verdict = await verifyAudit(database, this.#checkpoint)
    const at = clock.now()
    this.#verified = { at, verdict }
    if (verdict.ok) return
    if (await claimRun(database.db, 'audit_altered', at - reportEveryMs, at)) {
      const event = this.#ingest.own({
        severity: 'breach',
        event_type: eventTypes.auditAltered,
        description: `The audit log was altered outside the service. ${verdict.detail}`,
        metadata: { seq: verdict.seq, reason: verdict.reason },
      })
      await this.#ingest.store([event])
    }
    throw new Error(`The audit log is ${verdict.reason} at entry ${verdict.seq}. ${verdict.detail}`)
  }

  async view(): Promise<AuditChain> {
    const { database, clock } = this.#deps
    const { seq, hash } = await auditCheckpoint(database.db, clock.now())
    const checkpoint = this.#checkpoint
    return {
      length: seq,
      head_hash: hash,
      checkpoint: checkpoint ? { seq: checkpoint.seq, hash: checkpoint.hash, at: isoTime(checkpoint.at) } : null,
      verification: this.#verified ? { at: isoTime(this.#verified.at), ...shownVerdict(this.#verified.verdict) } : null,
    }
  }
}

const shownVerdict = (verdict: ChainVerdict) =>
  verdict.ok
    ? { result: 'intact' as const, entries: verdict.count, fault_seq: null, detail: null }
    : { result: verdict.reason, entries: verdict.seq - 1, fault_seq: verdict.seq, detail: verdict.detail }
