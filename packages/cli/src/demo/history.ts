import { existsSync } from 'node:fs'
import { type Config, databaseFile, type UnopenedService } from '@wardline/server'
import { type PastClock, pastClock } from './past-clock.ts'
import { createPastFleet } from './past-fleet.ts'
import { pilotDays, script } from './script.ts'

const minuteMs = 60_000
const dayMs = 86_400_000
const beatMs = 30_000
const jobsEveryMs = 30 * minuteMs

/** Jobs that process what was reported, in this order. Rules and alerts wake by themselves as well. */
const usualJobs = [
  'event-index',
  'rules',
  'alerts',
  'anomalies',
  'alert-summaries',
  'instance-history',
  'report-habits',
  'fleet-baselines',
  'key-usage',
  'audit-checkpoint',
]
/** Jobs that follow a suspension. */
const controlJobs = ['suspension-facts', 'suspension-watch']

/** The past of a demo whose data folder has no database yet. */
export interface Past {
  clock: PastClock
  /** When it ends, and the present begins. */
  end: number
}

export function newPast(config: Config, now: number): Past | undefined {
  const file = databaseFile(config)
  if (file === undefined || existsSync(file)) return undefined
  return { clock: pastClock(now - (pilotDays + 1) * dayMs - minuteMs), end: now }
}

interface LivingOptions {
  key: string
  size: number
  seed: number
}

/** Lets the service live through the days until now, with the clock of each moment. */
export async function liveThrough(
  { clock, end }: Past,
  service: UnopenedService,
  options: LivingOptions,
): Promise<void> {
  const fleet = createPastFleet(service, options)
  const acts = script(fleet, end)
  const dayStart = end - dayMs
  let next = 0
  let jobsAt = 0
  // The rules run from the first event on.
  await service.runJobs('rules')

  async function act(until: number): Promise<void> {
    for (; next < acts.length && acts[next]!.at < until; next++) {
      clock.moveTo(acts[next]!.at)
      await acts[next]!.run()
      await service.whenIdle()
    }
  }

  async function runJobs(time: number): Promise<void> {
    if (fleet.agents.some(({ isSuspended }) => isSuspended)) await service.runJobs(...controlJobs)
    if (time < jobsAt) return
    await service.runJobs(...usualJobs)
    jobsAt = time + jobsEveryMs
  }

  await act(dayStart)
  // From here on all agents run, as those of the present do, and work in their hours.
  for (const agent of fleet.agents) fleet.start(agent)
  await service.runJobs(...usualJobs)
  for (let time = dayStart; time < end; time += beatMs) {
    clock.moveTo(time)
    await fleet.beat(fleet.agents)
    await act(time + beatMs)
    await runJobs(time)
  }
  await service.runJobs(...usualJobs, ...controlJobs)
  await service.whenIdle()
  clock.moveToPresent()
  // A slow machine takes minutes for the day: agents that are not heard of since its end would be shown as offline.
  await fleet.beat(fleet.agents)
}
