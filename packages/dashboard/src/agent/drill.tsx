import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { drillSentence } from '../containments/drill-texts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { drillQuery } from '../data/containments.ts'
import type { AgentDetail } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Fault } from '../ui/panel.tsx'
import { Time } from '../ui/time.tsx'
import css from './agent.module.css'

/** Shows when the agent last proved that a suspension reaches it, with a button to start a drill now. */
export function DrillRow({ detail: { id, last_proven_stoppable_at } }: { detail: AgentDetail }) {
  const client = useQueryClient()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.drillList] })
  const [started, setStarted] = useState<string>()
  const { data: drill } = useQuery({ ...drillQuery(started ?? ''), enabled: started !== undefined })
  const isOver = drill?.state === 'complete'
  useEffect(() => {
    if (isOver) void client.invalidateQueries({ queryKey: queryKeys.agent(id), exact: true })
  }, [isOver, client, id])
  const start = () =>
    run(async () => {
      setStarted((await call('startDrill', { body: { selector: { instances: [id] } } })).id)
      return undefined
    })
  return (
    <div className={css.row}>
      <span className="quiet">
        Last proven stoppable: {last_proven_stoppable_at === null ? 'never' : <Time at={last_proven_stoppable_at} />}
      </span>
      <OperatorButton disabled={isBusy || (started !== undefined && !isOver)} onClick={() => void start()}>
        Run a drill
      </OperatorButton>
      <span role="status" className={drill?.missing_count ? 'warning' : ''}>
        {drill && drillSentence(drill)}
      </span>
      <Fault of={fault} />
    </div>
  )
}
