package dev.klamm.checkpoints;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;

/**
 * What Spark's checkpoints are written through when `fs.AbstractFileSystem.file.impl` names this class: files without
 * `.crc` beside them, and no process forked. Renaming is what Spark builds on; it is one step here, also over a file
 * that is there, where Hadoop deletes first.
 */
public class CheckpointLocalFs extends DelegateToFileSystem {
    /** The signature that Hadoop asks for. */
    CheckpointLocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
        this(uri, conf, new JvmLocalFileSystem());
    }

    private CheckpointLocalFs(URI uri, Configuration conf, RawLocalFileSystem files)
            throws IOException, URISyntaxException {
        super(uri, files, conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
    }

    @Override
    public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
        java.nio.file.Path from = local(source);
        java.nio.file.Path to = local(target);
        if (Files.isDirectory(from)) {
            super.renameInternal(source, target, overwrite);
            return;
        }
        if (!overwrite && Files.exists(to)) {
            throw new FileAlreadyExistsException("rename destination " + target + " already exists.");
        }
        try {
            Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchFileException missing) {
            throw new FileNotFoundException("rename source " + source + " or the folder of " + target + " not found.");
        }
        // A file that the session before wrote with a checksum beside it would no longer agree with that checksum.
        Files.deleteIfExists(to.resolveSibling("." + to.getFileName() + ".crc"));
    }

    private java.nio.file.Path local(Path path) {
        return new File(path.toUri().getPath()).toPath();
    }

    @Override
    public int getUriDefaultPort() {
        return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
        return getServerDefaults();
    }

    @Override
    @Deprecated
    public FsServerDefaults getServerDefaults() throws IOException {
        return LocalConfigKeys.getServerDefaults();
    }

    /** What a name may be is the operating system's business. */
    @Override
    public boolean isValidName(String name) {
        return true;
    }
}
