import type { Agent } from '../data/fleet.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import { StatusMark } from '../parts/marks.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Time } from '../ui/time.tsx'
import type { AttentionItem } from './attention.ts'

interface ItemFactsProps {
  item: AttentionItem
  agent: Agent | undefined
  /** Whether the report is cut to the width. */
  line?: boolean
}

/** When, how often, and what the reporter says. */
export function ItemFacts({ item, agent, line = false }: ItemFactsProps) {
  return (
    <p>
      {agent?.status === 'suspended' && item.kind !== 'unconfirmed' && (
        <>
          <StatusMark status={shownStatus(agent)} />
          {' · '}
        </>
      )}
      <Time at={item.at} />
      {item.facts && ` · ${item.facts}`}
      {item.report !== undefined && ' · '}
      {item.report !== undefined && <HostileText text={item.report} max={160} line={line} />}
    </p>
  )
}
