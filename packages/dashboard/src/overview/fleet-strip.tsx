import { useNavigate } from '@tanstack/react-router'
import type { FleetMark } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type KeyboardEvent, useId, useState } from 'react'
import type { Agent } from '../data/fleet.ts'
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

interface StripProps {
  marks: readonly FleetMark[]
  /** Agents with an open breach or critical report. */
  troubled: ReadonlyMap<string, 'breach' | 'critical'>
  /** Those of them that are known. */
  agents: readonly Agent[]
  /** Whether there are more of these than are named. */
  isCut?: boolean
}

type States = Record<MarkState, number>

function statesOf({ agents, offline = 0, suspended = 0, unconfirmed = 0, violated = 0 }: FleetMark): States {
  return {
    breach: violated,
    unconfirmed,
    critical: 0,
    offline,
    suspended: suspended - unconfirmed - violated,
    active: agents - offline - suspended,
  }
}

/** The place of the mark that has this id; -1: none has. */
function placeOf(marks: readonly FleetMark[], id: string): number {
  const place = marks.findLastIndex(({ from }) => from <= id)
  const mark = marks[place]
  return mark && id <= (mark.to ?? mark.from) ? place : -1
}

/** Counts agents by state for each mark: those with a problem, unless they are suspended, by that. */
function countStates({ marks, troubled, agents }: StripProps): States[] {
  const all = marks.map(statesOf)
  const known = new Map(agents.map(({ id, status }) => [id, status]))
  for (const [id, problem] of troubled) {
    const states = all[placeOf(marks, id)]
    // A suspended agent is contained, whatever caused the suspension.
    const status = known.get(id)
    if (!states || status === 'suspended') continue
    const from = status === 'offline' || states.active === 0 ? 'offline' : 'active'
    if (states[from] === 0) continue
    states[from] -= 1
    states[problem] += 1
  }
  return all
}

/** One mark per agent in the order of ids, so that people learn the shape of their fleet. */
export function FleetStrip(props: StripProps) {
  const { isCut = false } = props
  const navigate = useNavigate()
  const list = useId()
  const [picked, setPicked] = useState<number>()
  const all = countStates(props)
  const marks = props.marks.map((mark, index) => {
    const found = all[index]!
    return { ...mark, found, state: states.find((state) => found[state] > 0)! }
  })
  const totals = states.map((state) => [state, all.reduce((sum, found) => sum + found[state], 0)] as const)
  const size = Math.max(0, ...marks.map(({ agents }) => agents))

  const nameOf = ({ from, to, agents, state, found }: (typeof marks)[number]): string => {
    if (to === undefined) return `${from}: ${words[state]}`
    return `${from} to ${to}: ${found[state]} of ${counted(agents, 'agent')} ${words[state]}`
  }
  function open(index: number | undefined) {
    const mark = index === undefined ? undefined : marks[index]
    if (mark?.to !== undefined) void navigate({ to: '/fleet', search: { from: mark.from } })
    else if (mark) void navigate({ to: '/fleet/$id', params: { id: mark.from } })
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
            key={mark.from}
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
        {totals
          .toReversed()
          .filter(([, count]) => count > 0)
          .map(([state, count]) => (
            <span key={state}>
              <i className={`${css.mark} ${css[state]}`} />{' '}
              {isCut && (state === 'breach' || state === 'critical') && 'more than '}
              {count.toLocaleString('en')} {words[state]}
            </span>
          ))}
        <span className={`end ${css.named}`}>{shown ? nameOf(shown) : ''}</span>
      </p>
      {size > 1 && (
        <p className="quiet">
          Each mark stands for {size.toLocaleString('en')} agents and shows the worst state among them.
        </p>
      )}
    </div>
  )
}
