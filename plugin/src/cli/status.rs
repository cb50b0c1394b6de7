//! `linkerd-cni status`: what STATUS looks at, line by line.

use super::{
    DIFFERENT, Outcome, StatusArguments,
    conf::{self, Entry},
    screen::{Screen, Style},
    table::{Cell, Table},
};
use crate::status::{Line, Verdict, lines};

pub(super) fn run(arguments: &StatusArguments, screen: Screen) -> Result<Outcome, String> {
    let entry = match &arguments.conf {
        // A file that somebody names has to be there; the node's own may be missing.
        Some(file) => Ok(conf::read(file)?),
        None => conf::find(&arguments.conf_dir),
    };
    let lines = match entry {
        Ok(Entry { file, config }) => {
            let found = Line::fine("entry", file.display().to_string());
            [found].into_iter().chain(lines(&config)).collect()
        }
        Err(why) => {
            let mend = "without an entry the runtime does not call this plugin at all";
            vec![Line::fault("entry", why, mend)]
        }
    };
    let is_faulty = lines.iter().any(|line| line.verdict == Verdict::Fault);
    Ok(Outcome {
        text: text(&lines, screen),
        code: if is_faulty { DIFFERENT } else { 0 },
    })
}

fn text(lines: &[Line], screen: Screen) -> String {
    let mut table = Table::new(&["LOOKED AT", "", "FOUND"], 0);
    for line in lines {
        let (word, style) = match line.verdict {
            Verdict::Fine => ("ok", Style::Good),
            Verdict::Warning => ("warning", Style::Doubtful),
            Verdict::Fault => ("fault", Style::Bad),
        };
        table.push(vec![
            Cell::new(line.about),
            Cell::styled(word, style),
            Cell::new(&line.text),
        ]);
    }
    let mends = lines.iter().filter_map(|line| {
        let mend = line.mend.as_ref()?;
        let about = screen.paint(line.about, Style::Heading);
        let text = format!("{}; {mend}", line.text);
        Some(format!("\n{about}\n{}", screen.wrap(&text, 2)))
    });
    table.render(screen) + &mends.collect::<String>()
}
