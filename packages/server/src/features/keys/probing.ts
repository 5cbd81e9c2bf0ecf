import { eventTypes } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import type { Deps } from '../../deps.ts'
import { addressGroup } from '../../http/address-group.ts'
import type { Refusal, RefusalWatch } from '../../http/auth.ts'
import type { CountedReports } from '../events/counted-reports.ts'

const windowMs = 60_000
/** Far more than a wrongly pasted key causes, and far too few to guess 256 random bits. */
const maxFailures = 20
/** Addresses whose failures are counted, a few megabytes of memory. The oldest are removed first. */
const maxAddresses = 10_000
/** Addresses that are reported by name per minute; a botnet must not use up the limit of reports. */
const maxReported = 100
/** Keys and addresses whose refusals are counted separately per minute; the others are counted together. */
const maxCounted = 1_000
/** Keys and addresses that are logged per minute, those with the most refusals first. */
const maxLogged = 20

interface Failures {
  since: number
  count: number
}

/**
 * Counts refusals, delays addresses that send many invalid keys, and reports these addresses as well as keys used for
 * an instance to which they are not bound. Each process counts separately. No method receives a submitted key.
 */
export class Probing implements RefusalWatch {
  readonly #deps: Pick<Deps, 'clock' | 'log' | 'metrics'>
  readonly #reports: Pick<CountedReports, 'note'>
  readonly #failures = new Map<string, Failures>()
  readonly #refusals = new Map<string, number>()
  #uncounted = 0
  readonly #reported = new Set<string>()

  constructor(deps: Pick<Deps, 'clock' | 'log' | 'metrics'>, reports: Pick<CountedReports, 'note'>) {
    this.#deps = deps
    this.#reports = reports
  }

  badKey(address: string | null): number | undefined {
    if (address === null) return undefined
    const group = addressGroup(address)
    const failures = this.#failuresOf(group)
    failures.count += 1
    if (failures.count >= maxFailures) this.#reportProbing(group, address, failures.count === maxFailures)
    if (failures.count <= maxFailures) return undefined
    this.#deps.metrics.authFailures.inc({ reason: 'too_many' })
    return Math.max(1, Math.ceil((failures.since + windowMs - this.#deps.clock.monotonic()) / 1_000))
  }

  isWaiting(address: string | null): boolean {
    const known = address === null ? undefined : this.#failures.get(addressGroup(address))
    return known !== undefined && known.count >= maxFailures && this.#deps.clock.monotonic() - known.since < windowMs
  }

  refused({ address, principal, reachedFor }: Refusal): void {
    if (address !== null) this.#count(`address ${addressGroup(address)}`)
    if (!principal) return
    this.#count(`key ${principal.keyId}`)
    if (reachedFor === undefined) return
    const { keyId, instances } = principal
    const bound = instances ?? []
    // The request came from the instance of the key; the instance in the request did nothing.
    const suspect = onlyName(bound)
    this.#reports.note({ kind: eventTypes.identityMismatch, owner: keyId }, (count) => ({
      severity: 'critical',
      event_type: eventTypes.identityMismatch,
      description:
        `The key ${keyId} was used for the instance ${reachedFor}, which it is not bound to` +
        (count > 1 ? `; ${count} such requests since the last report` : ''),
      ...(suspect === undefined ? {} : { instance_id: suspect }),
      ...(address === null ? {} : { ip_address: address }),
      metadata: { key_id: keyId, reached_for: reachedFor, bound_to: bound.slice(0, 10), count },
    }))
  }

  /** Runs once a minute: logs the callers whose requests were refused, and resets the counts. */
  run(): void {
    const now = this.#deps.clock.monotonic()
    for (const [group, { since }] of this.#failures) if (now - since >= windowMs) this.#failures.delete(group)
    this.#reported.clear()
    if (this.#refusals.size === 0) return
    const top = [...this.#refusals].toSorted(([, one], [, other]) => other - one).slice(0, maxLogged)
    this.#deps.log.info(
      { refused: Object.fromEntries(top), callers: this.#refusals.size, more: this.#uncounted },
      'requests without the required permission within the last minute',
    )
    this.#refusals.clear()
    this.#uncounted = 0
  }

  #failuresOf(group: string): Failures {
    const now = this.#deps.clock.monotonic()
    const known = this.#failures.get(group)
    if (known && now - known.since < windowMs) return known
    this.#failures.delete(group)
    if (this.#failures.size >= maxAddresses) this.#forgetOldest()
    const fresh = { since: now, count: 0 }
    this.#failures.set(group, fresh)
    return fresh
  }

  /** Removes many at once, because finding the first entry of a Map gets slower with each entry removed before it. */
  #forgetOldest(): void {
    let left = maxAddresses / 4
    for (const group of this.#failures.keys()) {
      if (left-- <= 0) return
      this.#failures.delete(group)
    }
  }

  #count(caller: string): void {
    const known = this.#refusals.get(caller)
    if (known === undefined && this.#refusals.size >= maxCounted) this.#uncounted += 1
    else this.#refusals.set(caller, (known ?? 0) + 1)
  }

  #reportProbing(group: string, address: string, isFirst: boolean): void {
    const isNamed = this.#reported.has(group) || this.#reported.size < maxReported
    if (isNamed) this.#reported.add(group)
    const from = isNamed ? group : `more than ${maxReported} addresses`
    // The first report of a window also counts the failures before the one that triggered it.
    const before = isFirst ? maxFailures - 1 : 0
    this.#reports.note({ kind: eventTypes.authProbing, owner: isNamed ? group : 'many' }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.authProbing,
      description: `${count + before} requests with invalid keys from ${from}`,
      ...(isNamed ? { ip_address: address } : {}),
      metadata: { from, count: count + before },
    }))
  }
}
