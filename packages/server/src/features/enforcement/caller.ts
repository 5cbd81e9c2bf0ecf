import type { EnforcementRequest } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Deps } from '../../deps.ts'
import { type Egress, EgressError } from '../../egress/egress.ts'
import { uuidV7 } from '../../ids.ts'
import { version } from '../../version.ts'
import { judgeByStatus, userAgent } from '../alerts/channels/http-receiver.ts'
import { signedHeaders } from '../alerts/channels/standard-webhook.ts'
import { allTags } from '../instances/tags.ts'
import type { Answer, CallRow } from './call-statements.ts'

/** Upper bound of Retry-After: a point may delay a call, but not indefinitely. */
const maxAskedSeconds = 300

/** The same at each attempt. */
export const requestOf = (row: CallRow): EnforcementRequest => ({
  action: row.action,
  instance_id: row.instance_id,
  version: row.version,
  reason: row.reason,
  containment_id: row.containment_id,
  tags: allTags(row),
  at: isoTime(row.requested_at),
})

export const testRequest = (at: string): EnforcementRequest => ({
  action: 'test',
  instance_id: null,
  version: null,
  reason: null,
  containment_id: null,
  tags: [],
  at,
})

export const newCallId = (now: number): string => `enf_${uuidV7(now)}`

/**
 * Calls enforcement points. Their addresses come from the operator's file, so private ones are allowed, as for channels
 * of the environment.
 */
export class Caller {
  readonly #deps: Pick<Deps, 'clock' | 'config' | 'log' | 'secrets'>
  #egress: Promise<Egress> | undefined

  constructor(deps: Pick<Deps, 'clock' | 'config' | 'log' | 'secrets'>) {
    this.#deps = deps
  }

  /** Makes one attempt; resolves also if it failed. `id` is the same for each attempt of a call. */
  async call(point: Point, id: string, request: EnforcementRequest, signal: AbortSignal): Promise<Answer> {
    const { clock, config, log, secrets } = this.#deps
    const now = clock.now()
    const body = JSON.stringify(request)
    const sender = { deployment: secrets.deployment, version, publicUrl: config.publicUrl, now }
    const headers = {
      'content-type': 'application/json',
      'user-agent': userAgent(sender),
      ...signedHeaders({ id, timestamp: Math.floor(now / 1_000), body }, [point.secret]),
    }
    try {
      this.#egress ??= import('../../egress/open-egress.ts').then(({ createEgress }) =>
        createEgress({ guarded: false, allow: [] }),
      )
      const egress = await this.#egress
      const verdict = judgeByStatus(await egress.post({ url: point.url, headers, body }, signal))
      const { delivered, status, error, retryAfterSeconds = 0 } = verdict
      return { delivered, status, error, retryAfterSeconds: Math.min(retryAfterSeconds, maxAskedSeconds) }
    } catch (fault) {
      const failed = (error: string) => ({ delivered: false, status: null, error })
      if (fault instanceof EgressError) return failed(fault.message)
      // The message of a fault may contain the URL.
      log.error({ point: point.name, fault: fault instanceof Error ? fault.name : 'unknown' }, 'a point was not called')
      return failed('The call could not be made; the log of the service names the point.')
    }
  }

  async close(): Promise<void> {
    ;(await this.#egress)?.close()
  }
}
