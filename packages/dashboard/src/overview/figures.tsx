import { Link, linkOptions } from '@tanstack/react-router'
import type { SeverityCounts } from '@wardline/contract'
import type { Counts } from '../data/fleet-counts.ts'
import { Stat, Stats } from '../ui/panel.tsx'

const figures = [
  ...(
    [
      ['active', 'Active'],
      ['offline', 'Offline'],
      ['suspended', 'Suspended'],
    ] as const
  ).map(([name, label]) => ({
    name,
    label,
    link: linkOptions({ to: '/fleet', search: { status: name } }),
  })),
  ...(
    [
      ['breach', 'Breach, 24 h'],
      ['critical', 'Critical, 24 h'],
      ['warning', 'Warning, 24 h'],
    ] as const
  ).map(([name, label]) => ({
    name,
    label,
    link: linkOptions({ to: '/events', search: { severity: name, last: '24h' } }),
  })),
]

interface FiguresProps {
  counts: Counts | undefined
  stats: SeverityCounts | undefined
  /** Whether each number is linked to the list that it counts. */
  isLinked?: boolean
}

/** Agents by status, and events of the last day by severity. */
export function Figures({ counts, stats, isLinked }: FiguresProps) {
  const values = { ...counts, ...stats }
  const unconfirmed = counts?.unconfirmed ?? 0
  return (
    <Stats>
      {figures.map(({ name, label, link }) => (
        <Stat
          key={name}
          name={isLinked ? <Link {...link}>{label}</Link> : label}
          value={values[name]?.toLocaleString('en') ?? '…'}
          kind={values[name] && name !== 'active' && name !== 'offline' ? name : undefined}
          note={name === 'suspended' && unconfirmed > 0 && `${unconfirmed.toLocaleString('en')} not confirmed`}
        />
      ))}
    </Stats>
  )
}
