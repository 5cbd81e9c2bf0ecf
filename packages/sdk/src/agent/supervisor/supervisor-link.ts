import { ActiveFaults } from '../../active-faults.ts'
import { ControlLink } from '../../control-link.ts'
import type { Enforcer } from '../../enforcer.ts'
import { mismatchEvent } from '../../events.ts'
import { MonitorError } from '../../faults.ts'
import { KillSwitch } from '../../kill-switch.ts'
import { Listeners } from '../../listeners.ts'
import type { Settings } from '../../options.ts'
import { usualPace } from '../../pace.ts'
import { Reports } from '../../reports.ts'
import { Service, supervisorKeyCommand } from '../../service.ts'

/** Maximum time for the last messages, in milliseconds. */
const endWithinMs = 2_000

const ignoredText = (instanceId: string) =>
  `The agent is held, but the service ignores the evidence of this supervisor: create its key with \`${supervisorKeyCommand(instanceId)}\`.`

/** Connection of a supervisor to the service: the kill switch of the SDK, without the checks of calls. */
export class SupervisorLink {
  readonly listeners = new Listeners()
  readonly #killSwitch: KillSwitch
  readonly #link: ControlLink
  readonly #reports: Reports
  readonly #ending = new AbortController()

  constructor(settings: Settings, enforcer: Enforcer) {
    const service = new Service(settings, supervisorKeyCommand)
    const faults = new ActiveFaults(this.listeners)
    this.#killSwitch = new KillSwitch(settings, this.listeners)
    this.#reports = new Reports(service, faults, usualPace, settings.instanceId)
    this.#link = new ControlLink({
      service,
      faults,
      settings,
      pace: usualPace,
      killSwitch: this.#killSwitch,
      understands: 'drill',
      hear: ({ header }) => {
        const counts = header('wardline-supervisor')
        if (counts === 'ignored')
          faults.raise('evidence', new MonitorError('unauthorized', ignoredText(settings.instanceId)))
        else if (counts !== null) faults.clear('evidence')
      },
      notice: () => false,
      onMismatch: (applied, received) => void this.#reports.add(mismatchEvent(applied, received, settings.instanceId)),
      enforcer,
    })
  }

  get suspended(): boolean {
    return this.#killSwitch.suspended
  }

  get reason(): string | undefined {
    return this.#killSwitch.reason
  }

  /** Resolves after the first contact, or when the wait for it is over. */
  async start(): Promise<void> {
    await within(usualPace.start, this.#link.ask())
    this.#killSwitch.lookAtClock()
    if (!this.#ending.signal.aborted) this.#link.follow(this.#ending.signal)
  }

  /** Sends the evidence if it has changed since the acknowledgement. */
  async renew(): Promise<void> {
    await within(endWithinMs, this.#link.renew())
  }

  async stop(): Promise<void> {
    this.#ending.abort()
    this.#killSwitch.close()
    await within(endWithinMs, Promise.all([this.#link.leave(), this.#reports.flush(endWithinMs)]))
  }
}

function within(ms: number, work: Promise<unknown>): Promise<unknown> {
  return Promise.race([work, new Promise((resolve) => setTimeout(resolve, ms))])
}
