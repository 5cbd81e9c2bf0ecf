import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { type KeyboardEvent, useId, useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { isUnconfirmed, shownStatus } from '../data/fleet-counts.ts'
import css from './fleet-strip.module.css'

/** Worst first. */
const states = ['breach', 'unconfirmed', 'critical', 'offline', 'suspended', 'active'] as const
type MarkState = (typeof states)[number]
const words: Record<MarkState, string> = {
  breach: 'breach',
  unconfirmed: 'not confirmed',
  critical: 'critical',
  offline: 'offline',
  suspended: 'suspended',
  active: 'active',
}

/** More marks could not be distinguished. */
const maxMarks = 400

interface StripProps {
  fleet: readonly Agent[]
  /** Agents with an open breach or critical report. */
  troubled: ReadonlyMap<string, 'breach' | 'critical'>
}

/** One mark per agent in the order of ids, so that people learn the shape of their fleet. */
export function FleetStrip({ fleet, troubled }: StripProps) {
  const navigate = useNavigate()
  const list = useId()
  const [picked, setPicked] = useState<number>()
  const stateOf = (agent: Agent): MarkState => {
    const status = shownStatus(agent)
    // A suspended agent is contained, whatever caused the suspension.
    if (status === 'active' || status === 'offline') return troubled.get(agent.id) ?? status
    return status === 'violated' ? 'breach' : isUnconfirmed(status) ? 'unconfirmed' : 'suspended'
  }
  const size = Math.ceil(fleet.length / maxMarks)
  const marks = Array.from({ length: Math.ceil(fleet.length / Math.max(1, size)) }, (_, index) => {
    const group = fleet.slice(index * size, (index + 1) * size)
    const all = group.map(stateOf)
    return { group, state: states.find((state) => all.includes(state))!, all }
  })
  const counts = new Map<MarkState, number>()
  for (const agent of fleet) counts.set(stateOf(agent), (counts.get(stateOf(agent)) ?? 0) + 1)

  const nameOf = ({ group, state, all }: (typeof marks)[number]): string => {
    if (group.length === 1) return `${group[0]!.id}: ${words[state]}`
    const same = all.filter((one) => one === state).length
    return `${group[0]!.id} to ${group.at(-1)!.id}: ${same} of ${counted(group.length, 'agent')} ${words[state]}`
  }
  function open(index: number | undefined) {
    const mark = index === undefined ? undefined : marks[index]
    if (!mark) return
    if (mark.group.length === 1) void navigate({ to: '/fleet/$id', params: { id: mark.group[0]!.id } })
    else void navigate({ to: '/fleet', search: { from: mark.group[0]!.id } })
  }
  function move(event: KeyboardEvent) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -marks.length, End: marks.length }[
      event.key
    ]
    if (event.key === 'Enter') open(picked)
    if (step === undefined) return
    event.preventDefault()
    setPicked(Math.min(marks.length - 1, Math.max(0, (picked ?? -1) + step)))
  }
  const shown = picked === undefined ? undefined : marks[picked]
  return (
    <div className={css.strip}>
      <div
        role="listbox"
        aria-label="Fleet, one mark per agent"
        aria-activedescendant={shown ? `${list}-${picked}` : undefined}
        tabIndex={0}
        className={css.marks}
        onKeyDown={move}
        onFocus={() => setPicked(picked ?? 0)}
        onPointerLeave={() => setPicked(undefined)}
      >
        {marks.map((mark, index) => (
          <span
            key={mark.group[0]!.id}
            id={`${list}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === picked}
            aria-label={nameOf(mark)}
            className={`${css.mark} ${css[mark.state]}`}
            onPointerEnter={() => setPicked(index)}
            onClick={() => open(index)}
          />
        ))}
      </div>
      <p className={`${css.legend} quiet`}>
        {states.toReversed().flatMap((state) =>
          counts.has(state)
            ? [
                <span key={state}>
                  <i className={`${css.mark} ${css[state]}`} /> {counts.get(state)!.toLocaleString('en')} {words[state]}
                </span>,
              ]
            : [],
        )}
        <span className={css.named}>{shown ? nameOf(shown) : ''}</span>
      </p>
      {size > 1 && <p className="quiet">A mark stands for {size} agents and shows the worst of them.</p>}
    </div>
  )
}
