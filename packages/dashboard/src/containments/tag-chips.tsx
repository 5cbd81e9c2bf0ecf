import { HostileText } from '../parts/hostile-text.tsx'

/** Above this many tags, typing a name is faster than searching a list. */
const maxListed = 30

interface TagChipsProps {
  counts: readonly (readonly [tag: string, count: number])[]
  chosen: readonly string[]
  onChoose(tags: string[]): void
}

/** Tags to choose from. Agents must have all chosen tags. */
export function TagChips({ counts, chosen, onChoose }: TagChipsProps) {
  if (counts.length === 0) return <p className="quiet">No agent has a tag.</p>
  const listed = counts.slice(0, maxListed).map(([tag]) => tag)
  const shown = [...new Set([...listed, ...chosen])]
  return (
    <fieldset className="chips plain-set">
      <legend className="quiet">Agents that have all of</legend>
      {shown.map((tag) => (
        <button
          key={tag}
          type="button"
          className="chip"
          aria-pressed={chosen.includes(tag)}
          onClick={() => onChoose(chosen.includes(tag) ? chosen.filter((one) => one !== tag) : [...chosen, tag])}
        >
          <HostileText text={tag} line max={40} /> <b>{counts.find(([one]) => one === tag)?.[1] ?? 0}</b>
        </button>
      ))}
      {counts.length > maxListed && (
        <label className="field">
          <span>Another tag</span>
          <select value="" onChange={({ target }) => target.value && onChoose([...chosen, target.value])}>
            <option value="">{counts.length - maxListed} more</option>
            {counts.slice(maxListed, 500).map(([tag]) => (
              <option key={tag} value={tag}>
                {tag}
              </option>
            ))}
          </select>
        </label>
      )}
    </fieldset>
  )
}
