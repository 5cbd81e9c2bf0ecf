import { useQuery, useQueryClient } from '@tanstack/react-query'
import { limits } from '@wardline/contract'
import { type FormEvent, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { ignoresKey, ignoresQuery } from '../service/decoys.ts'

const dayMs = 86_400_000
const offeredDays = [1, 7, 30, 90]
/** Allows for clock differences: the service compares the longest allowed end with its own clock. */
const slackMs = 60_000

/** Ignore rules: tools whose hits raise no breach, each with a reason and an expiry. */
export function IgnoreRules({ mayOperate }: { mayOperate: boolean }) {
  const client = useQueryClient()
  const { data: ignores = [] } = useQuery(ignoresQuery)
  const [tool, setTool] = useState('')
  const [reason, setReason] = useState('')
  const [days, setDays] = useState(7)
  const [fault, setFault] = useState<string>()
  async function change(work: () => Promise<unknown>) {
    setFault(undefined)
    try {
      await work()
      await client.invalidateQueries({ queryKey: ignoresKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    const until = new Date(Date.now() + days * dayMs - slackMs).toISOString()
    void change(async () => {
      await call('createDecoyIgnore', { body: { tool: tool.trim(), reason: reason.trim(), until } })
      setTool('')
      setReason('')
    })
  }
  return (
    <section className="panel ignores" aria-label="Ignored tools">
      <h2>Ignored tools</h2>
      <p className="quiet">Their hits are counted and the calls denied, but they raise no breach and suspend nobody.</p>
      {ignores.length > 0 && (
        <ul>
          {ignores.map((rule) => (
            <li key={rule.id}>
              <b>
                <HostileText text={rule.tool} max={24} />
              </b>{' '}
              until <Time at={rule.until} />: <HostileText text={rule.reason} max={200} /> (
              <HostileText text={rule.created_by} max={60} />){' '}
              {mayOperate && (
                <button
                  type="button"
                  aria-label={`End the rule for ${rule.tool}`}
                  onClick={() => void change(() => call('deleteDecoyIgnore', { params: { id: rule.id } }))}
                >
                  End
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {mayOperate && (
        <form onSubmit={submit} className="chips">
          <input
            required
            aria-label="Tool to ignore"
            placeholder="Tool"
            maxLength={24}
            value={tool}
            onChange={(event) => setTool(event.target.value)}
          />
          <input
            required
            aria-label="Reason"
            placeholder="Reason"
            maxLength={limits.reason}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
          <select aria-label="For how long" value={days} onChange={(event) => setDays(Number(event.target.value))}>
            {offeredDays.map((count) => (
              <option key={count} value={count}>
                {count === 1 ? '1 day' : `${count} days`}
              </option>
            ))}
          </select>
          <button type="submit">Ignore this tool</button>
        </form>
      )}
      <p role="alert" className="fault">
        {fault}
      </p>
    </section>
  )
}
