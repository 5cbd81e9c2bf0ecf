import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { atlasVersion, type CoveredTactic, type CoveredTechnique, coverageOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type ListedRule, rulesQuery } from '../data/rules.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel, Screen } from '../ui/panel.tsx'
import { modeColours } from './rule-texts.ts'
import css from './rules.module.css'

/** A technique that rules cover, with these rules, their modes and firings. */
function Covered({ id, name, rules }: CoveredTechnique<ListedRule>) {
  return (
    <li>
      <b>{name}</b> <span className="quiet mono">{id}</span>
      <ul>
        {rules.map((rule) => (
          <li key={rule.id}>
            <Link to="/rules/$id" params={{ id: rule.id }}>
              <HostileText text={rule.title} max={120} />
            </Link>{' '}
            <span className={`quiet ${css.facts}`}>
              <span className={modeColours[rule.mode]}>{rule.mode}</span> · {counted(rule.firings_7d, 'firing')}
            </span>
          </li>
        ))}
      </ul>
    </li>
  )
}

function Tactic({ id, name, techniques }: CoveredTactic<ListedRule>) {
  const covered = techniques.filter(({ rules }) => rules.length > 0)
  const others = techniques.filter(({ rules }) => rules.length === 0)
  return (
    <Panel title={name} note={`${id} · ${covered.length} of ${techniques.length} covered`} className={css.tactic}>
      {covered.length > 0 && (
        <ul className="inner" aria-label={`Covered techniques of ${name}`}>
          {covered.map((technique) => (
            <Covered key={technique.id} {...technique} />
          ))}
        </ul>
      )}
      {others.length > 0 && (
        <div className={`inner ${css.uncovered}`}>
          <span className="quiet">No rule:</span>
          <ul className="quiet" aria-label={`Techniques of ${name} without a rule`}>
            {others.map((technique) => (
              <li key={technique.id}>
                {technique.name} <span className="mono">{technique.id}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  )
}

/** Which techniques of MITRE ATLAS the rules cover, by their tags. */
export function Coverage() {
  const { data, error } = useQuery(rulesQuery)
  const coverage = data && coverageOf(data.rules)
  return (
    <Screen
      title={coverage ? `${coverage.covered} of ${coverage.total} techniques covered` : 'Coverage'}
      lead={
        <>
          Techniques of MITRE ATLAS {atlasVersion} that rules name as a tag, such as atlas.aml.t0086, with firings of 7
          days. Some, such as those about training data, are not visible in what agents do at run time.{' '}
          <Link to="/rules">All rules</Link>
        </>
      }
    >
      <Fault of={error} />
      {coverage && coverage.unknown.length > 0 && (
        <p className="quiet">
          Tags without a technique in this version:{' '}
          <HostileText text={coverage.unknown.slice(0, 20).join(', ')} max={500} />
        </p>
      )}
      <div className={css.tactics}>
        {coverage?.tactics.map((tactic) => (
          <Tactic key={tactic.id} {...tactic} />
        ))}
      </div>
    </Screen>
  )
}
