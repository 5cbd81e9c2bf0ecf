import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { type KeyboardEvent, useId, useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { isUnconfirmed, shownStatus } from '../data/fleet-counts.ts'
import css from './fleet-strip.module.css'

/** States of a mark, worst first. */
const words = {
  breach: 'breach',
  unconfirmed: 'not confirmed',
  critical: 'critical',
  offline: 'offline',
  suspended: 'suspended',
  active: 'active',
}
type MarkState = keyof typeof words
const states = Object.keys(words) as MarkState[]

/** More marks could not be distinguished. */
const maxMarks = 400

interface StripProps {
  fleet: readonly Agent[]
  /** Agents with an open breach or critical report. */
  troubled: ReadonlyMap<string, 'breach' | 'critical'>
  /** Whether there are more of these than are named. */
  isCut?: boolean
}

function stateOf(agent: Agent, troubled: StripProps['troubled']): MarkState {
  const status = shownStatus(agent)
  // A suspended agent is contained, whatever caused the suspension.
  if (status === 'active' || status === 'offline') return troubled.get(agent.id) ?? status
  if (status === 'violated') return 'breach'
  return isUnconfirmed(status) ? 'unconfirmed' : 'suspended'
}

/** One mark per agent in the order of ids, so that people learn the shape of their fleet. */
export function FleetStrip({ fleet, troubled, isCut = false }: StripProps) {
  const navigate = useNavigate()
  const list = useId()
  const [picked, setPicked] = useState<number>()
  const all = fleet.map((agent) => stateOf(agent, troubled))
  const size = Math.max(1, Math.ceil(fleet.length / maxMarks))
  const marks = Array.from({ length: Math.ceil(fleet.length / size) }, (_, index) => {
    const [from, to] = [index * size, (index + 1) * size]
    const found = all.slice(from, to)
    return { group: fleet.slice(from, to), found, state: states.find((state) => found.includes(state))! }
  })

  const nameOf = ({ group, state, found }: (typeof marks)[number]): string => {
    if (group.length === 1) return `${group[0]!.id}: ${words[state]}`
    const same = found.filter((one) => one === state).length
    return `${group[0]!.id} to ${group.at(-1)!.id}: ${same} of ${counted(group.length, 'agent')} ${words[state]}`
  }
  function open(index: number | undefined) {
    const [first, second] = (index !== undefined && marks[index]?.group) || []
    if (second) void navigate({ to: '/fleet', search: { from: first!.id } })
    else if (first) void navigate({ to: '/fleet/$id', params: { id: first.id } })
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
    <div className="inner">
      <div
        role="listbox"
        aria-label="Fleet, one mark per agent"
        aria-activedescendant={shown ? `${list}-${picked}` : undefined}
        tabIndex={0}
        className={`chips ${css.marks}`}
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
      <p className={`chips ${css.legend} quiet`}>
        {states
          .toReversed()
          .filter((state) => all.includes(state))
          .map((state) => (
            <span key={state}>
              <i className={`${css.mark} ${css[state]}`} />{' '}
              {isCut && (state === 'breach' || state === 'critical') && 'more than '}
              {all.filter((one) => one === state).length.toLocaleString('en')} {words[state]}
            </span>
          ))}
        <span className={`end ${css.named}`}>{shown ? nameOf(shown) : ''}</span>
      </p>
      {size > 1 && <p className="quiet">Each mark stands for {size} agents and shows the worst state among them.</p>}
    </div>
  )
}
