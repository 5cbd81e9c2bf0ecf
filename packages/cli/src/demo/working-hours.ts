import type { CastMember } from '../simulate/story.ts'

const hourMs = 3_600_000

/** Working hours of the agents of a type, on the clock of this machine; the others work around the clock. */
const hoursOf: Readonly<Record<string, readonly [from: number, to: number]>> = {
  support: [7, 21],
  coding: [8, 19],
  research: [8.5, 18],
  finance: [6.5, 17.5],
  analytics: [9, 20],
}

const hourOfDay = (time: number): number => {
  const date = new Date(time)
  return date.getHours() + date.getMinutes() / 60
}

/** Whether the agent works at that time. Agents of one type begin up to an hour apart. */
export function isAtWork({ id, role: { agentType } }: CastMember, time: number): boolean {
  const hours = hoursOf[agentType]
  if (!hours) return true
  const apart = (Number(/\d+$/.exec(id)?.[0] ?? 0) % 3) * 0.4
  const hour = hourOfDay(time)
  return hour >= hours[0] + apart && hour < hours[1] + apart
}

/** How much there is to do at that time: 1 at noon, little at night. */
export function workload(time: number): number {
  const hour = hourOfDay(time)
  return 0.18 + 0.82 * Math.max(0, Math.sin((Math.PI * (hour - 5.5)) / 16))
}

/** A time within [from, to] at which the agent has worked for this part of its hours in it. */
export function timeAtWork(member: CastMember, part: number, { from, to }: { from: number; to: number }): number {
  const stepMs = hourMs / 12
  const worked = Array.from({ length: Math.floor((to - from) / stepMs) }, (_, index) => from + index * stepMs).filter(
    (time) => isAtWork(member, time),
  )
  return worked[Math.floor(part * worked.length)] ?? from
}
