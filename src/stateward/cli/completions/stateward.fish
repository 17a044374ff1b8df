# Completion of stateward in fish: the program itself says what may follow.
function __stateward_candidates
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($words[1] __complete $words[2..] "$typed" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$typed"
            case :folders
                __fish_complete_directories "$typed" ''
            case '*'
                echo $line
        end
    end
end
complete -c stateward -f -k -a '(__stateward_candidates)'
