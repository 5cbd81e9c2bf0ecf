import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { drillSentence } from '../containments/drill-texts.ts'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { drillQuery } from '../service/containments.ts'
import type { AgentDetail } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'

/** Shows when the agent last proved that a suspension reaches it, with a button to start a drill now. */
export function DrillRow({ detail: { id, last_proven_stoppable_at } }: { detail: AgentDetail }) {
  const client = useQueryClient()
  const mayOperate = useMayOperate()
  const { data, error, isPending, mutate } = useMutation({
    mutationFn: () => call('startDrill', { body: { selector: { instances: [id] } } }),
  })
  const { data: latest } = useQuery({ ...drillQuery(data?.id ?? ''), enabled: data !== undefined })
  const drill = latest ?? data
  const isOver = drill?.state === 'complete'
  useEffect(() => {
    if (isOver) void client.invalidateQueries({ queryKey: ['agent', id], exact: true })
  }, [isOver, client, id])
  return (
    <p className="drill-row">
      <span className="quiet">
        Last proven stoppable: {last_proven_stoppable_at === null ? 'never' : <Time at={last_proven_stoppable_at} />}
      </span>
      <button
        type="button"
        disabled={!mayOperate || isPending || (drill !== undefined && !isOver)}
        title={mayOperate ? 'A harmless message: the agent notices nothing' : 'Needs a key of scope operator'}
        onClick={() => mutate()}
      >
        Run a drill
        {!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>}
      </button>
      <span role="status" className={error || drill?.missing_count ? 'warning' : ''}>
        {error ? <HostileText text={sentenceOf(error)} /> : drill && drillSentence(drill)}
      </span>
    </p>
  )
}
