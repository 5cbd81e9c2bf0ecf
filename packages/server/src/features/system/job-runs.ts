import type { JobView } from '@wardline/contract'
import { type Clock, isoTime, isoTimeOrNull } from '../../clock.ts'

interface JobRun {
  everyMs: number
  isRunning: boolean
  lastSuccessAt: number | null
  lastFailureAt: number | null
  lastError: string | null
  nextAt: number
}

/** Database errors may quote a whole statement. */
const maxError = 300

/** Records the runs of this process's periodic jobs. */
export class JobRuns {
  readonly #clock: Pick<Clock, 'now'>
  readonly #redact: (text: string) => string
  readonly #runs = new Map<string, JobRun>()

  constructor(clock: Pick<Clock, 'now'>, redact: (text: string) => string) {
    this.#clock = clock
    this.#redact = redact
  }

  /** Records that a timer fired. The job starts unless it is still running. */
  due(name: string, everyMs: number): void {
    const nextAt = this.#clock.now() + everyMs
    const run = this.#runs.get(name)
    if (run) run.nextAt = nextAt
    else {
      const never = { lastSuccessAt: null, lastFailureAt: null, lastError: null }
      this.#runs.set(name, { everyMs, isRunning: false, ...never, nextAt })
    }
  }

  started(name: string): void {
    const run = this.#runs.get(name)
    if (run) run.isRunning = true
  }

  succeeded(name: string): void {
    const run = this.#runs.get(name)
    if (run) Object.assign(run, { isRunning: false, lastSuccessAt: this.#clock.now() })
  }

  failed(name: string, fault: unknown): void {
    const run = this.#runs.get(name)
    const lastError = this.#redact(fault instanceof Error ? fault.message : String(fault)).slice(0, maxError)
    if (run) Object.assign(run, { isRunning: false, lastFailureAt: this.#clock.now(), lastError })
  }

  list(): JobView[] {
    return [...this.#runs].map(([name, run]) => ({
      name,
      every_ms: run.everyMs,
      is_running: run.isRunning,
      last_success_at: isoTimeOrNull(run.lastSuccessAt),
      last_failure_at: isoTimeOrNull(run.lastFailureAt),
      last_error: run.lastError,
      next_run_at: isoTime(run.nextAt),
    }))
  }
}
