import { packPrefix, packsOf, type RuleMode, type RulePack, ruleModes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import type { ListedRule } from '../data/rules.ts'
import { useMayOperate } from '../data/session.ts'
import { ChangeDialog } from '../parts/change-dialog.tsx'
import { Chip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { type Column, DataTable } from '../ui/table.tsx'
import { modeColours, modeNames, modeSentences } from './rule-texts.ts'
import css from './rules.module.css'

type Pack = RulePack<ListedRule>

interface Asked {
  pack: Pack
  mode: RuleMode
}

const columns: readonly Column<Pack>[] = [
  {
    name: 'Pack',
    cell: ({ name, purpose }) => (
      <>
        <b>
          <HostileText text={name} max={60} line />
        </b>
        {purpose !== undefined && <div className="quiet">{purpose}</div>}
      </>
    ),
  },
  {
    name: 'Rules',
    kind: 'word',
    cell: ({ rules, modes }) => (
      <>
        {counted(rules.length, 'rule')}
        <div className="quiet">
          {ruleModes
            .filter((mode) => modes[mode] > 0)
            .map((mode, index) => (
              <span key={mode}>
                {index > 0 && ', '}
                <span className={modeColours[mode]}>
                  {modes[mode]} {mode}
                </span>
              </span>
            ))}
        </div>
      </>
    ),
  },
  {
    name: 'Firings, 7 days',
    kind: 'number',
    isWide: true,
    cell: ({ firings_7d }) => firings_7d.toLocaleString('en'),
  },
]

const isOfFile = ({ file }: ListedRule): boolean => file !== null
/** Rules whose mode the press changes. */
const changedBy = ({ pack, mode }: Asked) => pack.rules.filter((rule) => !isOfFile(rule) && rule.mode !== mode)

const effects: Record<RuleMode, string> = { observe: 'only be recorded', alert: 'alert', enforce: 'enforce' }

/** Names the higher modes of rules: `1 enforces, 2 alert`. */
const loweredText = (rules: readonly ListedRule[]): string =>
  (['enforce', 'alert'] as const)
    .map((mode) => ({ mode, count: rules.filter((rule) => rule.mode === mode).length }))
    .filter(({ count }) => count > 0)
    .map(({ mode, count }) => `${count} ${mode}${count === 1 ? 's' : ''}`)
    .join(', ')

/** Before the mode of a pack is set, says how many rules change, and what that means. */
function PackDialog({ asked, onClose }: { asked: Asked; onClose(): void }) {
  const { pack, mode } = asked
  const changed = changedBy(asked)
  const lowered = changed.filter((rule) => ruleModes.indexOf(rule.mode) > ruleModes.indexOf(mode))
  const acting = changed.filter(({ responses }) => responses.some((action) => action !== 'alert'))
  const already = pack.rules.filter((rule) => rule.mode === mode).length
  const ofFiles = pack.rules.filter((rule) => isOfFile(rule) && rule.mode !== mode).length
  const firings = changed.reduce((sum, rule) => sum + rule.firings_7d, 0)
  return (
    <ChangeDialog
      changes={[queryKeys.rules]}
      title={
        <>
          {modeNames[mode]}: all rules of <HostileText text={pack.name} max={60} />?
        </>
      }
      submit={`Set mode ${mode}`}
      kind={mode === 'enforce' ? 'act' : 'go'}
      send={async () => {
        const result = await call('setPackMode', { body: { pack: pack.name, mode } })
        const kept = result.refused.length === 0 ? '' : ` ${counted(result.refused.length, 'rule')} of files unchanged.`
        return `${counted(result.changed.length, 'rule')} set to ${mode}.${kept}`
      }}
      onClose={onClose}
    >
      <p>
        <b>
          {counted(changed.length, 'rule')} will {effects[mode]}
        </b>
        {already > 0 && `, ${already} ${already === 1 ? 'does' : 'do'} already`}. {modeSentences[mode]}
      </p>
      <p>
        {firings === 0 ? 'They did not fire' : `They fired ${counted(firings, 'time')}`} in the last 7 days.
        {mode === 'enforce' && ` ${counted(acting.length, 'rule')} will suspend agents or call enforcement points.`}
      </p>
      {lowered.length > 0 && (
        <p className="warning">
          {lowered.length} of them {lowered.length === 1 ? 'does' : 'do'} more now: {loweredText(lowered)}.
        </p>
      )}
      {ofFiles > 0 && <p className="quiet">{counted(ofFiles, 'rule')} from files keep the mode of the file.</p>}
    </ChangeDialog>
  )
}

/** The packs of the rules, each with a control that sets the mode of all its rules. */
export function Packs({ rules }: { rules: readonly ListedRule[] }) {
  const [asked, setAsked] = useState<Asked>()
  const mayOperate = useMayOperate()
  const packs = packsOf(rules)
  if (packs.length === 0) return null
  const lockOf = ({ pack }: Asked): string | undefined => {
    if (!mayOperate) return 'Changing rules requires a key with scope operator or admin'
    return pack.rules.every(isOfFile) ? 'These rules are loaded from files: edit the files to change them' : undefined
  }
  return (
    <>
      <DataTable
        title="Packs"
        note="Rules with the same tag pack.<name>. A press sets the mode of all of them, after a confirmation."
        columns={columns}
        rows={packs}
        rowKey={({ name }) => packPrefix + name}
        actions={(pack) => (
          <span className={`chips ${css.modes}`} role="group" aria-label={`Mode of ${pack.name}`}>
            {ruleModes.map((mode) => {
              const locked = lockOf({ pack, mode })
              const isOn = pack.modes[mode] === pack.rules.length
              return (
                <Chip
                  key={mode}
                  isOn={isOn}
                  disabled={locked !== undefined}
                  title={locked ?? modeSentences[mode]}
                  onClick={() => changedBy({ pack, mode }).length > 0 && setAsked({ pack, mode })}
                >
                  {modeNames[mode]}
                  {!isOn && '…'}
                </Chip>
              )
            })}
          </span>
        )}
      />
      {asked && <PackDialog asked={asked} onClose={() => setAsked(undefined)} />}
    </>
  )
}
